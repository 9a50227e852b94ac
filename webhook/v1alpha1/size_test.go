package v1alpha1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/viking"
)

// sized fills args so that the request's size is the bound plus more.
func sized(t *testing.T, more int) func(*v1alpha1.CompileTaskSpec) {
	return func(s *v1alpha1.CompileTaskSpec) {
		t.Helper()
		s.Instruction = strings.Repeat("<", maxInstructionBytes)
		s.Args = rawArgs(argsOf(1 << 10))
		size, err := requestSize(s)
		if err != nil {
			t.Fatalf("requestSize: %v", err)
		}
		s.Args = rawArgs(argsOf(1<<10 + maxRequestBytes - size + more))
	}
}

func TestSizeOfNewCompileTask(t *testing.T) {
	const tooLong = ": FieldValueTooLong"
	cases := map[string]struct {
		change func(*v1alpha1.CompileTaskSpec)
		want   []string
		texts  []string
	}{
		"an instruction of 64 KiB is fine":            {change: withInstruction(strings.Repeat("x", 65536))},
		"it may be of longer characters":              {change: withInstruction(strings.Repeat("ü", 32768))},
		"a byte more is too much":                     {change: withInstruction(strings.Repeat("x", 65537)), want: []string{"spec.instruction" + tooLong}, texts: []string{"65537 bytes", "at most 65536"}},
		"it is bytes that count, not characters":      {change: withInstruction(strings.Repeat("界", 21846)), want: []string{"spec.instruction" + tooLong}, texts: []string{"65538 bytes", "at most 65536"}},
		"a request of 512 KiB is fine":                {change: sized(t, 0)},
		"a request a byte larger is not":              {change: sized(t, 1), want: []string{"spec" + tooLong}, texts: []string{"from, to, skill, instruction and args, sealed ones too, together take 524289 bytes", "at most 524288"}},
		"escaped characters of args count as 6 bytes": {change: withEscapes(strings.Repeat("<", 80<<10)), want: []string{"spec" + tooLong}},
		"they do where they come escaped already":     {change: withEscapes(strings.Repeat(`\u003c`, 40<<10)), want: []string{"spec" + tooLong}},
		"sources count":                               {change: withSources("viking://resources/" + strings.Repeat(strings.Repeat("&", 90)+"/", 20) + "a"), want: []string{"spec" + tooLong}},
		"sealed args count as they are stored":        {change: withBodies(200<<10, 200<<10), want: []string{"spec" + tooLong}},
		"sealed bodies of half of that are fine":      {change: withBodies(100<<10, 100<<10)},
		"args that are no JSON have one fault":        {change: withEscapes("\n"), want: []string{"spec.args: FieldValueInvalid"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			task := makeTask(tc.change)
			if task.Spec.RESTRequest != nil {
				task.Name = "cmp-0123456789abcdef0123456789abcdef"
			}
			got := ValidateCompileTask(task, nil, viking.Caller{User: "alice"}, true)
			if diff := cmp.Diff(tc.want, brief(got)); diff != "" {
				t.Fatalf("faults (-want +got):\n%s", diff)
			}
			for _, text := range tc.texts {
				if message := got.ToAggregate().Error(); !strings.Contains(message, text) || len(message) > 300 {
					t.Errorf("message %.400q lacks %q, or shows the value", message, text)
				}
			}
		})
	}
}

// withBodies seals bodies of so many bytes into a task of the REST API.
func withBodies(args, credentials int) func(*v1alpha1.CompileTaskSpec) {
	return func(s *v1alpha1.CompileTaskSpec) {
		fromREST(s)
		s.SealedArgs = &v1alpha1.SealedBody{Data: make([]byte, args), Size: 1}
		s.SealedCredentials = &v1alpha1.SealedBody{Data: make([]byte, credentials), Size: 1}
	}
}

func withInstruction(text string) func(*v1alpha1.CompileTaskSpec) {
	return func(s *v1alpha1.CompileTaskSpec) { s.Instruction = text }
}

// withEscapes has an instruction that leaves args 128 KiB, and a text in args.
func withEscapes(text string) func(*v1alpha1.CompileTaskSpec) {
	return func(s *v1alpha1.CompileTaskSpec) {
		s.Instruction, s.Args = strings.Repeat("<", maxInstructionBytes), rawArgs(`{"a":"`+text+`"}`)
	}
}

func withSources(uri string) func(*v1alpha1.CompileTaskSpec) {
	return func(s *v1alpha1.CompileTaskSpec) {
		s.From = nil
		for i := range 64 {
			s.From = append(s.From, fmt.Sprintf("%s%d", uri, i))
		}
	}
}

func TestAnOldTaskOfAnySizeCanBeUpdated(t *testing.T) {
	task := makeTask(sized(t, 1))
	task.Spec.Instruction += "x"
	if faults := ValidateCompileTask(task, task.DeepCopy(), viking.Caller{}, false); len(faults) > 0 {
		t.Errorf("faults of an update: %v", faults)
	}
}

func TestRequestSizeIsThatOfTheStoredForm(t *testing.T) {
	task := makeTask(func(s *v1alpha1.CompileTaskSpec) {
		s.Instruction, s.Args = "a < b & c > d\u2028", rawArgs(`{"a": "<", "b": [1, 2]}`)
	})
	size, err := requestSize(&task.Spec)
	if err != nil {
		t.Fatalf("requestSize: %v", err)
	}
	// The API server stores what it has decoded, through an Encoder of this kind.
	var fields map[string]any
	plain, err := json.Marshal(task.Spec)
	if err != nil {
		t.Fatalf("encode the spec: %v", err)
	}
	if err := json.Unmarshal(plain, &fields); err != nil {
		t.Fatalf("decode the spec: %v", err)
	}
	delete(fields, "requester")
	var stored bytes.Buffer
	if err := json.NewEncoder(&stored).Encode(fields); err != nil {
		t.Fatalf("encode the fields: %v", err)
	}
	if want := len(bytes.TrimSpace(stored.Bytes())); size != want {
		t.Errorf("size = %d, want %d: %s", size, want, stored.Bytes())
	}
}
