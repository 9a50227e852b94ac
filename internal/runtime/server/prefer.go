package server

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/agentruntime/operator/internal/runtimeapi"
)

// preferredWait reads "Prefer: wait=N" (RFC 7240): N seconds, at most
// runtimeapi.MaxWaitSeconds, zero when the preference is absent or malformed.
// As the RFC has it, the first of several counts.
func preferredWait(h http.Header) time.Duration {
	for _, line := range h.Values(runtimeapi.HeaderPrefer) {
		for preference := range strings.SplitSeq(line, ",") {
			// Parameters of a preference come after a semicolon.
			token, _, _ := strings.Cut(preference, ";")
			name, value, _ := strings.Cut(token, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			seconds, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
			if err != nil {
				return 0
			}
			return time.Duration(min(seconds, runtimeapi.MaxWaitSeconds)) * time.Second
		}
	}
	return 0
}

// waitApplied is the value of Preference-Applied for a wait.
func waitApplied(wait time.Duration) string {
	if wait == 0 {
		return "wait"
	}
	return "wait=" + strconv.Itoa(int(wait/time.Second))
}

// etagOf names a state by the bytes that tell it.
func etagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// etags reads If-None-Match.
type etags []string

func ifNoneMatch(h http.Header) etags {
	var list etags
	for _, line := range h.Values("If-None-Match") {
		for tag := range strings.SplitSeq(line, ",") {
			if tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/"); tag != "" {
				list = append(list, tag)
			}
		}
	}
	return list
}

// match reports whether the client knows the state already.
func (e etags) match(tag string) bool {
	for _, t := range e {
		if t == tag || t == "*" {
			return true
		}
	}
	return false
}
