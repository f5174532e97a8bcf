/*
 * Requirements as documents: what somebody writes to ask for a place, and what a row keeps so that a
 * session can be placed again. The fields and their meaning are those of struct requirements
 * (core/capabilities.h).
 *
 * A document that somebody wrote is read strictly: unknown fields, wrong types and duplicate keys
 * are refused with the path of the field, and so is what no node could ever have: a negative amount
 * of memory, a program without a name.
 *
 * Canonical text: the fields in one fixed order, labels sorted by key, what is empty left out, so
 * "{}" asks for anything healthy. Reading it and writing it again gives the same bytes.
 *
 * A request for a place is {"spec":…,"requirements":…}, either of which may be missing. What the
 * spec implies (spec_sandbox_requirements()) joins what was asked for.
 *
 * Source: the reference's Requirements and Spec.SandboxRequirements.
 */
#ifndef CLOOP_CORE_REQUIREMENTS_H
#define CLOOP_CORE_REQUIREMENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/capabilities.h"
#include "core/error.h"
#include "core/owner.h"
#include "core/spec.h"

/* A document → checked requirements. *ret must hold nothing. Errors: EINVAL with the field. */
int requirements_parse(const char *text, size_t len, struct requirements *ret, struct error *err);

/* The same from a parsed value; path prefixes the paths in errors ("" at the top). */
int requirements_read(json_t *value, const char *path, struct requirements *ret,
		      struct error *err);

/* Canonical JSON; NULL when out of memory. The caller frees it. */
char *requirements_text(const struct requirements *q);

/* Whether anything healthy will do. */
bool requirements_is_zero(const struct requirements *q);

/*
 * Of these requirements what is no choice of a node, but holds wherever the workload runs: the
 * require_… flags and the isolation that it allows. *ret owns nothing.
 */
void requirements_needs(const struct requirements *q, struct requirements *ret);

struct placement_request {
	struct spec *spec;                /* NULL: none was given */
	bool whole;                       /* the document has parts, not the spec alone */
	struct requirements requirements; /* with what the spec implies */
};

enum placement_request_form {
	PLACEMENT_REQUEST_WHOLE, /* {"spec":…,"requirements":…}, and nothing else */
	PLACEMENT_REQUEST_START, /* the same, or the spec itself; there must be a spec */
	PLACEMENT_REQUEST_CHECK, /* the same, or the requirements themselves */
};

/* Reads and checks a document; clear *ret afterwards. Errors: EINVAL with the field. */
int placement_request_parse(const char *text, size_t len, enum placement_request_form form,
			    struct placement_request *ret, struct error *err);

void placement_request_clear(struct placement_request *request);
#define AUTO_PLACEMENT_REQUEST CLEANUP(placement_request_clear)

#endif
