package middleware

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"
)

const headerTraceParent = "traceparent"

// The parts of a traceparent of version 00 (W3C Trace Context, 3.2.2), with their
// places in it.
const (
	traceLength            = 55
	traceBegin, traceEnd   = 3, 35
	parentBegin, parentEnd = 36, 52
	flagsBegin             = 53
	traceVersion           = "00"
	futureVersion          = "ff"
	traceIDBytes           = (traceEnd - traceBegin) / 2
	parentIDBytes          = (parentEnd - parentBegin) / 2
)

// traceParent returns the client's trace context in the form of version 00. One that
// is absent, repeated or malformed begins a new trace, not sampled: the standard has
// it ignored, not refused.
func traceParent(header http.Header) string {
	values := header.Values(headerTraceParent)
	if len(values) == 1 && validTraceParent(values[0]) {
		return traceVersion + values[0][2:traceLength]
	}
	var random [traceIDBytes + parentIDBytes]byte
	// crypto/rand never fails: without randomness the process ends.
	_, _ = rand.Read(random[:])
	return traceVersion + "-" + hex.EncodeToString(random[:traceIDBytes]) + "-" +
		hex.EncodeToString(random[traceIDBytes:]) + "-00"
}

// validTraceParent accepts version 00 and, as the standard asks, what later versions
// may append to its fields.
func validTraceParent(text string) bool {
	if len(text) < traceLength || text[2] != '-' || text[traceEnd] != '-' || text[parentEnd] != '-' {
		return false
	}
	version, trace := text[:2], text[traceBegin:traceEnd]
	parent, flags := text[parentBegin:parentEnd], text[flagsBegin:traceLength]
	switch {
	case !lowerHex(version + trace + parent + flags), version == futureVersion:
		return false
	case version == traceVersion && len(text) != traceLength:
		return false
	case len(text) > traceLength && text[traceLength] != '-':
		return false
	}
	return strings.Trim(trace, "0") != "" && strings.Trim(parent, "0") != ""
}

func lowerHex(text string) bool {
	for _, c := range []byte(text) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
