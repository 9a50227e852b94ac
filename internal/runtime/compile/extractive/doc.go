// Package extractive compiles a wiki without a model. It invents nothing: what a
// page says about its source is quoted from it word for word.
//
// # Which Skills
//
// It follows Skills of one kind, llm-wiki: those whose front matter says
// metadata.compile.kind: llm-wiki, and those that are named llm-wiki and name no
// kind. Other Skills, and Memory and Skill targets, need a model and are refused
// with SKILL_CAPABILITY_UNAVAILABLE.
//
// # What it makes
//
// index.md, and a page in concept/ for every text file of the sources. The pages
// are of type concept although they summarise a document each: a wiki of this kind
// has summary pages only when the instruction asks for them, and concept is its
// default (compile-api.md, F.12).
//
// The same sources, target and Skill give the same bytes. A page names its source
// in its front matter and keeps its path for as long as it exists, whatever becomes
// of the source's title; fields that others added to the front matter are kept. A
// file of the target that this package did not write is never overwritten, and
// pages whose source is gone stay, listed apart in the index.
//
// The target's own pages are never taken as sources.
package extractive
