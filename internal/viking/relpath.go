package viking

import (
	"fmt"
	"strings"
)

// PathError says why a relative path was refused.
type PathError struct {
	// Path is the path, made safe to display.
	Path string
	// Reason reads on from "path".
	Reason string
}

// Error returns the path and the reason.
func (e *PathError) Error() string { return fmt.Sprintf("path %q %s", e.Path, e.Reason) }

// CheckRelativePath checks a path of a file or directory to be made below a root
// (F.10, row "all"): slash-separated, not empty, with no empty segment, no
// leading slash or drive letter, no segment that starts with '.' (so no "..",
// and no sidecar), none of the escapes and characters that G.1 refuses, valid
// UTF-8, at most MaxURIBytes long and MaxDepth deep, each segment at most
// MaxSegmentBytes. A refusal is a *PathError.
func CheckRelativePath(p string) error {
	if reason := pathFault(p); reason != "" {
		return &PathError{Path: display(p), Reason: reason}
	}
	return nil
}

func pathFault(p string) string {
	switch {
	case p == "":
		return "must not be empty"
	case len(p) > MaxURIBytes:
		return fmt.Sprintf("must not be longer than %d bytes", MaxURIBytes)
	case strings.HasPrefix(p, "/"):
		return "must be relative"
	case hasDrive(p):
		return "must not have a drive letter"
	case strings.Count(p, "/") >= MaxDepth:
		return fmt.Sprintf("must not be deeper than %d segments", MaxDepth)
	}
	for segment := range strings.SplitSeq(p, "/") {
		if segment == "" {
			return "must not have empty segments"
		}
		if reason := segmentFault(segment); reason != "" {
			return reason
		}
		if IsDerivedName(segment) {
			return "must not use a name reserved for derived files"
		}
		if segment[0] == '.' {
			return "must not have a segment that starts with a dot"
		}
	}
	return ""
}

func hasDrive(p string) bool {
	return len(p) > 1 && p[1] == ':' && ('a' <= p[0]|0x20 && p[0]|0x20 <= 'z')
}
