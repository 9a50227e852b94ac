// Package fileapi is the wire form of the small part of OpenViking's file API that
// reads: what stands at a viking:// URI, what a directory holds, and the text of a
// file. A client and a server share it.
//
// The project's specification names the API and does not describe it. What is known
// of it comes from OpenViking's published documentation, its source, and reports of
// its users; where these differ, both forms are read and one is written:
//
//   - All three routes are GET with the URI in the query parameter "uri", and answer
//     in the envelope of A.1 and A.2: {"status":"ok","result":…}, or
//     {"status":"error","error":{"code","message","details"}} with the status of A.3.
//     Unknown query parameters are ignored.
//   - PathStat answers an object: name, size, mode, modTime, isDir; uri and, for a
//     directory, count in newer versions. Reports name the older spelling is_dir.
//     What does not exist is 404 NOT_FOUND.
//   - PathList takes recursive, simple (an array of strings instead of objects),
//     output ("agent", the default, or "original"), show_all_hidden, and node_limit
//     with its alias limit, which wins: 1000 entries unless it says otherwise. The
//     order of entries is not promised. Older versions cut at the limit in silence;
//     newer ones have "has_more" beside the result, and page with offset. Entries
//     have uri, size and isDir, with "original" also name; with recursive also
//     rel_path, relative to the URI that was listed. The result is an array; reports
//     name an object around it.
//   - PathRead answers the text as a string. offset and limit are lines, -1 being all
//     of them, and a line keeps its end. raw=true leaves out the cleaning of memory
//     files. A directory is 400 INVALID_ARGUMENT. Files that are no text have another
//     route, which is not part of this package.
//   - A list of what is a file is answered 404, 412 or 5xx, depending on the version.
//   - Identity (A.5, A.6): X-API-Key; or X-OpenViking-Account and -User, which
//     OpenViking believes in its trusted mode.
//
// "skipped" beside the result of a list is this project's own addition, as is
// X-Gateway-Token on these routes.
package fileapi
