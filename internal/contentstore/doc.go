// Package contentstore holds the files behind viking:// URIs: stat, list, read,
// and batch write, each on behalf of a user of an account (compile-api.md,
// F.11, G.4).
//
// [Store] is what callers use, [Reader] its reading half; [Local] keeps the files in
// a directory of the local disk, [Remote] reads those of a server of OpenViking's
// file API (package fileapi has what is known of that). Errors are *[Error]; their
// predicates tell a caller what to do.
package contentstore
