#include "core/requirements.h"

#include <errno.h>
#include <stdio.h>

#include "core/field.h"
#include "core/json.h"

static int refuse(struct error *err, const char *path, const char *name, const char *reason,
		  const char *remedy)
{
	char where[JSON_PATH_MAX];

	field_path(where, path, name);
	int r = error_set(err, EINVAL, "%s", reason);
	error_field(err, "%s", where);
	error_remedy(err, "%s", remedy);
	return r;
}

static int check(const struct requirements *q, const char *path, struct error *err)
{
	char name[64];

	if (q->min_memory_mb < 0)
		return refuse(err, path, "min_memory_mb", "is negative",
			      "write megabytes, or leave it out");
	for (size_t i = 0; i < q->n_harnesses; i++)
		if (text_trimmed(q->harnesses[i]).len == 0) {
			(void)snprintf(name, sizeof(name), "harnesses[%zu]", i);
			return refuse(err, path, name, "is blank",
				      "write the name of a program, or leave it out");
		}
	return 0;
}

int requirements_read(json_t *value, const char *path, struct requirements *ret, struct error *err)
{
	AUTO_REQUIREMENTS struct requirements q = {0};
	int r = requirements_from_json(value, path, &q, err);

	if (r < 0 || (r = check(&q, path, err)) < 0)
		return r;
	*ret = q;
	q = (struct requirements){0};
	return 0;
}

int requirements_parse(const char *text, size_t len, struct requirements *ret, struct error *err)
{
	AUTO_JSON json_t *value = NULL;
	int r = json_parse(text, len, &value, err);

	return r < 0 ? r : requirements_read(value, "", ret, err);
}

char *requirements_text(const struct requirements *q)
{
	AUTO_JSON json_t *o = requirements_to_json(q);

	return o ? json_text(o) : NULL;
}

bool requirements_is_zero(const struct requirements *q)
{
	AUTO_JSON json_t *o = requirements_to_json(q);

	return o && json_object_size(o) == 0;
}

void requirements_needs(const struct requirements *q, struct requirements *ret)
{
	*ret = (struct requirements){.allowed_isolations = q->allowed_isolations};
	requirements_add_flags(ret, q);
}

void placement_request_clear(struct placement_request *request)
{
	request->spec = spec_free(request->spec);
	requirements_clear(&request->requirements);
}

static bool has_parts(const json_t *value)
{
	return json_object_get(value, "spec") || json_object_get(value, "requirements");
}

static int read_parts(json_t *value, struct placement_request *request, struct error *err)
{
	struct json_object o;
	int r = json_object_begin(&o, value, "", err);

	if (r < 0)
		return r;
	json_t *spec = json_object_field(&o, "spec");
	json_t *requirements = json_object_field(&o, "requirements");
	/* What is unknown first: it may be the misspelt name of one of the two. */
	if ((r = json_object_end(&o, err)) < 0 ||
	    (spec && (r = spec_from_json(spec, "spec", &request->spec, err)) < 0) ||
	    (requirements && (r = requirements_read(requirements, "requirements",
						    &request->requirements, err)) < 0))
		return r;
	return 0;
}

int placement_request_parse(const char *text, size_t len, enum placement_request_form form,
			    struct placement_request *ret, struct error *err)
{
	AUTO_PLACEMENT_REQUEST struct placement_request request = {0};
	AUTO_JSON json_t *value = NULL;
	struct requirements implied;

	int r = json_parse(text, len, &value, err);
	if (r < 0)
		return form == PLACEMENT_REQUEST_START ? field_refused(r, err) : r;
	request.whole = form == PLACEMENT_REQUEST_WHOLE || has_parts(value);
	if (request.whole)
		r = read_parts(value, &request, err);
	else if (form == PLACEMENT_REQUEST_START)
		r = spec_from_json(value, "", &request.spec, err);
	else
		r = requirements_read(value, "", &request.requirements, err);
	if (r < 0)
		return r;
	if (!request.spec && form == PLACEMENT_REQUEST_START)
		return refuse(err, "", "spec", "is missing",
			      "write {\"spec\":{\"argv\":[…]},\"requirements\":{…}}");
	if (request.spec) {
		spec_sandbox_requirements(request.spec, &implied);
		requirements_add_flags(&request.requirements, &implied);
	}
	*ret = request;
	request = (struct placement_request){0};
	return 0;
}
