package compiletask

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/runtimeapi"
)

// Bounds of what a status holds, in characters, as its schema counts.
const (
	maxStage    = 256
	maxCode     = 128
	maxMessage  = 1024
	maxWarnings = 16
)

// Waits between repeated calls.
const (
	minRetryDelay = 200 * time.Millisecond
	maxRetryDelay = 30 * time.Second
)

// retryDelay is the wait before a failed call is repeated: doubling from 0.2 s to
// 30 s (E.2.4), spread by a fifth, and never less than the executor asked for.
func retryDelay(failures int, asked time.Duration) time.Duration {
	delay := maxRetryDelay
	if failures < 9 {
		delay = min(minRetryDelay<<max(failures-1, 0), maxRetryDelay)
	}
	return max(jitter(delay), asked)
}

// jitter spreads a wait by a tenth either way, so that many tasks that failed or
// were polled together do not stay together.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

// stripStage takes the built-in executor's prefix off a stage (H.7 Q1).
func stripStage(stage string) string {
	return strings.TrimPrefix(stage, "compile: ")
}

// clip cuts a text to a number of bytes without cutting a character.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}

// clipCharacters cuts a text to a number of characters.
func clipCharacters(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	count := 0
	for i := range text {
		if count == limit {
			return text[:i]
		}
		count++
	}
	return text
}

// taskError brings an executor's error into the bounds of status.error.
func taskError(err *runtimeapi.Error) *v1alpha1.TaskError {
	out := &v1alpha1.TaskError{Code: runtimeapi.CodeUnknown, Message: "External task failed"}
	if err == nil {
		return out
	}
	if err.Code != "" {
		out.Code = clipCharacters(err.Code, maxCode)
	}
	if err.Message != "" {
		out.Message = clipCharacters(err.Message, maxMessage)
	}
	return out
}

func emptyObject(raw json.RawMessage) bool {
	trimmed := bytes.TrimSpace(raw)
	if len(trimmed) == 0 || bytes.Equal(trimmed, []byte("null")) {
		return true
	}
	var members map[string]json.RawMessage
	return json.Unmarshal(trimmed, &members) == nil && len(members) == 0
}

// containsMembers tells whether object have holds every member of object want
// with the same value.
func containsMembers(have, want json.RawMessage) bool {
	if emptyObject(want) {
		return true
	}
	var haveMembers, wantMembers map[string]json.RawMessage
	if json.Unmarshal(want, &wantMembers) != nil {
		return true
	}
	if len(have) == 0 || json.Unmarshal(have, &haveMembers) != nil {
		return false
	}
	for name, value := range wantMembers {
		if !sameJSON(haveMembers[name], value) {
			return false
		}
	}
	return true
}

// sameJSON compares two values without regard to the order of members.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var left, right any
	if json.Unmarshal(a, &left) != nil || json.Unmarshal(b, &right) != nil {
		return false
	}
	leftText, errLeft := json.Marshal(left)
	rightText, errRight := json.Marshal(right)
	return errLeft == nil && errRight == nil && bytes.Equal(leftText, rightText)
}

// mergeMembers lays the members of one object over those of another (E.2.4,
// "shallow-merge meta").
func mergeMembers(base, over json.RawMessage) json.RawMessage {
	if emptyObject(over) {
		return base
	}
	if emptyObject(base) {
		return over
	}
	var members, overMembers map[string]json.RawMessage
	if json.Unmarshal(base, &members) != nil {
		return over
	}
	if json.Unmarshal(over, &overMembers) != nil {
		return base
	}
	for name, value := range overMembers {
		members[name] = value
	}
	merged, err := json.Marshal(members)
	if err != nil {
		return over
	}
	return merged
}
