package executor

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/agentruntime/operator/internal/runtimeapi"
)

// defaultTaskMessage stands for a failed task that says nothing (E.2.5).
const defaultTaskMessage = "External task failed"

// statusStates maps an executor's status words to states (E.2.3).
var statusStates = map[string]State{
	"accepted":   StateRunning,
	"pending":    StateRunning,
	"running":    StateRunning,
	"committing": StateRunning,
	"cancelling": StateCancelling,
	"completed":  StateCompleted,
	"failed":     StateFailed,
	"cancelled":  StateCancelled,
}

// stageWords are what a stage says of the end when status is absent, in the order
// they count (E.2.3). A failure counts before completion also by a set error.
var stageWords = []struct {
	state State
	words []string
}{
	{StateCancelled, []string{"cancelled", "canceled"}},
	{StateFailed, []string{"failed", "error"}},
	{StateCompleted, []string{"completed", "succeeded", "success", "finished"}},
}

// observation reads the answer of a poll or a cancel (E.1.2, E.2.3).
func (a answer) observation() (Observation, error) {
	var body map[string]json.RawMessage
	if json.Unmarshal(a.body, &body) != nil || body == nil {
		return Observation{}, a.invalid("the status answer is not a JSON object")
	}
	stage, ok := text(body["stage"])
	if !ok {
		return Observation{}, a.invalid("the status answer has no stage")
	}
	state, ok := stateOf(body, stage)
	if !ok {
		return Observation{}, a.invalid("the status answer has an unknown status")
	}
	result := object(body["result"])
	if state == StateCompleted && result == nil && !null(body["result"]) {
		return Observation{}, a.invalid("the result is not a JSON object")
	}
	obs := Observation{
		State:  state,
		Stage:  Redact(stage, a.secrets...),
		Meta:   object(body["meta"]),
		Result: result,
		ETag:   a.etag,
		Held:   a.held,
		EndLag: a.endLag,
	}
	if state == StateFailed {
		obs.Error = a.taskError(body["error"])
	}
	return obs, nil
}

// stateOf reads status, or infers it from stage and error where it is absent.
func stateOf(body map[string]json.RawMessage, stage string) (State, bool) {
	if !null(body["status"]) {
		word, ok := text(body["status"])
		if !ok {
			return "", false
		}
		if word = strings.ToLower(strings.TrimSpace(word)); word != "" {
			state, known := statusStates[word]
			return state, known
		}
	}
	stage = strings.ToLower(stage)
	for _, end := range stageWords {
		if end.state == StateFailed && !null(body["error"]) {
			return StateFailed, true
		}
		for _, word := range end.words {
			if strings.Contains(stage, word) {
				return end.state, true
			}
		}
	}
	return StateRunning, true
}

// taskError reads why a task failed: an object, or the plain string that E.1.2
// tolerates; what is missing reads UNKNOWN (E.2.5).
func (a answer) taskError(raw json.RawMessage) *runtimeapi.Error {
	failure := &runtimeapi.Error{Code: runtimeapi.CodeUnknown, Message: defaultTaskMessage}
	message, ok := text(raw)
	if !ok {
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil {
			return failure
		}
		if code, ok := text(fields["code"]); ok && a.validCode(code) {
			failure.Code = code
		}
		message, _ = text(fields["message"])
	}
	if strings.TrimSpace(message) != "" {
		failure.Message = Redact(message, a.secrets...)
	}
	return failure
}

// object returns raw when it is a JSON object.
func object(raw json.RawMessage) json.RawMessage {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) > 0 && trimmed[0] == '{' {
		return trimmed
	}
	return nil
}

// null reports whether raw is absent or null.
func null(raw json.RawMessage) bool {
	return len(raw) == 0 || string(bytes.TrimSpace(raw)) == "null"
}
