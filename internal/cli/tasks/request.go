package tasks

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"

	"github.com/agentruntime/operator/internal/cli/exit"
	"github.com/agentruntime/operator/internal/cli/taskapi"
)

// Request is a compile as it is typed.
type Request struct {
	// From has sources, each of them one URI or several with commas between.
	From        []string
	To          string
	Skill       string
	Instruction string
	// Args is the text of a JSON object; empty for none.
	Args string
	// IdempotencyKey makes a repeat answer with the same task; empty for none.
	IdempotencyKey string
}

// keyPattern is the syntax of an idempotency key (compile-api.md, B.6).
var keyPattern = regexp.MustCompile(`^[A-Za-z0-9:._-]{16,128}$`)

// Compile checks the request and makes the body of a create. Whatever can be told
// to be wrong without the server is refused here, so that no request is sent.
func (r Request) Compile() (taskapi.Compile, error) {
	body := taskapi.Compile{
		From: split(r.From), To: strings.TrimSpace(r.To), Skill: strings.TrimSpace(r.Skill),
		Instruction: strings.TrimSpace(r.Instruction),
	}
	switch {
	case len(body.From) == 0:
		return taskapi.Compile{}, exit.Usagef("name at least one source directory with --from")
	case body.To == "":
		return taskapi.Compile{}, exit.Usagef("name the target directory with --to")
	case body.Skill == "":
		return taskapi.Compile{}, exit.Usagef("name the skill with --skill")
	case r.IdempotencyKey != "" && !keyPattern.MatchString(r.IdempotencyKey):
		return taskapi.Compile{}, exit.Usagef("--idempotency-key must be 16 to 128 of the characters A-Z a-z 0-9 : . _ -")
	}
	args, err := parseArgs(r.Args)
	if err != nil {
		return taskapi.Compile{}, exit.Usagef("--args must be one JSON object: %w", err)
	}
	body.Args = args
	return body, nil
}

// split takes the sources apart at commas and leaves empty ones out.
func split(from []string) []string {
	var sources []string
	for _, text := range from {
		for source := range strings.SplitSeq(text, ",") {
			if source = strings.TrimSpace(source); source != "" {
				sources = append(sources, source)
			}
		}
	}
	return sources
}

// parseArgs returns the text of a JSON object, as it is: numbers are not even
// looked at. An object without keys is no args at all (B.1).
func parseArgs(text string) (json.RawMessage, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	var object json.RawMessage
	if err := decoder.Decode(&object); err != nil {
		return nil, readable(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the object")
	}
	if object[0] != '{' {
		return nil, errors.New("it is JSON, but no object")
	}
	if len(bytes.TrimSpace(object[1:len(object)-1])) == 0 {
		return nil, nil
	}
	return object, nil
}

func readable(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ends too early")
	}
	return err
}
