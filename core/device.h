/*
 * The name that a path of the hub gets on an executor that does not share its files.
 *
 * A device treats a work_dir as hostile and confines it below its own root, so the hub sends a name
 * and the device decides where it lands. The name is derived, not random, so that the next run
 * finds the same directory; the hash of the whole path keeps two projects with one base name apart.
 *
 * Source: the reference's DeviceWorkDir.
 */
#ifndef CLOOP_CORE_DEVICE_H
#define CLOOP_CORE_DEVICE_H

/* Bytes of the base name that are kept. */
#define DEVICE_NAME_BASE_MAX 48

/*
 * "<base>-<first 8 hex digits of SHA-256 of the cleaned path>" for an absolute path; anything else
 * comes back unchanged. NULL when out of memory. Caller frees.
 */
char *device_work_dir(const char *work_dir);

#endif
