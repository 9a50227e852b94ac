// Package viking holds the rules of viking:// URIs (compile-api.md, section G):
// the grammar, path variables, classification, who may be a source, a target or
// a Skill of a compile (B.2, G.4), and the mapping of Kubernetes user names to
// user ids. It is pure: it reads no clock, no file and no network, and the same
// input always gives the same answer.
//
// A [URI] is canonical: two URIs name the same place exactly when they are equal
// with ==. Aliases ("~", "session") need to know who is asking, so they are
// resolved by [Caller.Parse] and [Canonicalize] only, and never stand in a URI.
//
// Where the spec leaves a choice, this package takes the strict side:
//   - '?' and '#' are refused everywhere, not only in paths that are written;
//   - a segment must not begin or end with white space, be "." or "..", hold a
//     control or text-direction character, or an escape of '.', '/', '\' or of a
//     control character at any depth of percent-encoding;
//   - a target must be inside a resource, memory or skills directory that G.3
//     knows; places it calls "everything else" are no targets;
//   - a caller who is not known may name no user's tree at all.
package viking
