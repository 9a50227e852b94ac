package middleware

import (
	"net/http"

	"github.com/agentruntime/operator/internal/facade/wire"
)

// HeaderRequestID is the header of request and answer that names an exchange (A.4).
const HeaderRequestID = "X-Request-ID"

// maxRequestID bounds a client's request id, in bytes.
const maxRequestID = 128

// requestID returns the client's id, or a new one; false tells that the client has
// sent something that is none.
func requestID(header http.Header) (id string, ok bool) {
	values := header.Values(HeaderRequestID)
	switch {
	case len(values) == 0:
		return newID(), true
	case len(values) > 1 || !validRequestID(values[0]):
		return newID(), false
	}
	return values[0], true
}

// validRequestID matches [A-Za-z0-9._:-]{1,128}.
func validRequestID(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for _, c := range []byte(id) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}

// CheckRequestID refuses a request whose id is malformed or repeated. The id itself
// is neither told nor logged.
func CheckRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if exchangeOf(r.Context()).badID {
			fail(w, r, wire.Errorf(wire.CodeInvalidArgument,
				HeaderRequestID+" must be given once and have 1 to 128 characters of A-Z a-z 0-9 . _ : -"))
			return
		}
		next.ServeHTTP(w, r)
	})
}
