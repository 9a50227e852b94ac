package compileapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/agentruntime/operator/internal/facade/wire"
	"github.com/agentruntime/operator/internal/viking"
)

const headerIdempotencyKey = "Idempotency-Key"

// keyPattern is the form of an Idempotency-Key (B.6).
var keyPattern = regexp.MustCompile(`^[A-Za-z0-9:._-]{16,128}$`)

// idempotencyKey returns the request's key, "" when it has none.
func idempotencyKey(header http.Header) (string, error) {
	values := header.Values(headerIdempotencyKey)
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1 || !keyPattern.MatchString(values[0]):
		return "", wire.Errorf(wire.CodeInvalidArgument,
			headerIdempotencyKey+" must be given once and have 16 to 128 characters of A-Z a-z 0-9 : . _ -")
	}
	return values[0], nil
}

// canonicalRequest is a request with its URIs as they are stored.
type canonicalRequest struct {
	viking.Canonical
	instruction string
	args        json.RawMessage
}

// canonicalize applies B.2 and G for the caller, with path variables as they are at
// the given time.
func canonicalize(request createRequest, username string, at time.Time) (canonicalRequest, error) {
	caller := viking.Caller{User: viking.UserID(username)}
	raw := viking.Request{From: request.from, To: request.to, Skill: request.skill}
	canonical, faults := viking.Canonicalize(raw, caller, at)
	if fault := viking.First(faults); fault != nil {
		return canonicalRequest{}, uriError(fault)
	}
	return canonicalRequest{Canonical: canonical, instruction: request.instruction, args: request.args}, nil
}

func uriError(fault *viking.FieldError) *wire.Error {
	switch fault.Code {
	case viking.CodeInvalidURI:
		return &wire.Error{
			Code: wire.CodeInvalidURI, Message: fault.Error(),
			Details: map[string]any{"uri": fault.URI, "reason": fault.Reason},
		}
	case viking.CodePermissionDenied:
		return &wire.Error{
			Code: wire.CodePermissionDenied, Message: fault.Error(),
			Details: map[string]any{"resource": fault.URI, "field": fault.Field},
		}
	default:
		return wire.Errorf(wire.CodeInvalidArgument, "%s", fault.Error())
	}
}

// normalised is the request as its repeats are compared: public and private parts,
// names sorted, numbers by their text (B.6).
func (c canonicalRequest) normalised() (json.RawMessage, error) {
	fields := map[string]any{fieldFrom: c.From, fieldTo: c.To, fieldSkill: c.Skill}
	if c.instruction != "" {
		fields[fieldInstruction] = c.instruction
	}
	if c.args != nil {
		args, err := decodeExact(c.args)
		if err != nil {
			return nil, err
		}
		fields[fieldArgs] = args
	}
	body, err := encodeExact(fields)
	if err != nil {
		return nil, fmt.Errorf("normalise the request: %w", err)
	}
	return body, nil
}
