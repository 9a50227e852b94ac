package wire

import (
	"net/http"
	"strings"
)

// Known reports whether If-None-Match names the ETag, which holds no comma: the client
// has that state of the answer already.
func Known(header http.Header, etag string) bool {
	for _, value := range header.Values("If-None-Match") {
		for candidate := range strings.SplitSeq(value, ",") {
			if strings.TrimPrefix(strings.TrimSpace(candidate), "W/") == etag {
				return true
			}
		}
	}
	return false
}
