package v1alpha1

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/viking"
)

func makeTask(change func(*v1alpha1.CompileTaskSpec)) *v1alpha1.CompileTask {
	task := &v1alpha1.CompileTask{
		ObjectMeta: metav1.ObjectMeta{Name: "wiki", Namespace: "docs", CreationTimestamp: metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))},
		Spec: v1alpha1.CompileTaskSpec{
			From:  []string{"viking://resources/research"},
			To:    "viking://resources/wiki",
			Skill: "viking://agent/skills/llm-wiki",
		},
	}
	if change != nil {
		change(&task.Spec)
	}
	return task
}

func rawArgs(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

// brief shows faults as "path: type", which is what they are told apart by.
func brief(faults field.ErrorList) []string {
	var out []string
	for _, fault := range faults {
		out = append(out, fault.Field+": "+string(fault.Type))
	}
	return out
}

func TestValidateNewCompileTask(t *testing.T) {
	const invalid, forbidden, tooLong = ": FieldValueInvalid", ": FieldValueForbidden", ": FieldValueTooLong"
	cases := map[string]struct {
		change func(*v1alpha1.CompileTaskSpec)
		want   []string
	}{
		"a plain task is fine":                   {},
		"own trees and aliases are fine":         {change: func(s *v1alpha1.CompileTaskSpec) { s.From = []string{"viking://user/alice", "viking://~/memories"} }},
		"path variables are expanded":            {change: func(s *v1alpha1.CompileTaskSpec) { s.To = "viking://resources/daily/{calendar:today}" }},
		"an unknown path variable is refused":    {change: func(s *v1alpha1.CompileTaskSpec) { s.To = "viking://resources/{calendar:never}" }, want: []string{"spec.to" + invalid}},
		"a source is named by its index":         {change: func(s *v1alpha1.CompileTaskSpec) { s.From = append(s.From, "viking://resources/b", "http://x") }, want: []string{"spec.from[2]" + invalid}},
		"a foreign tree is forbidden everywhere": {change: foreignTrees, want: []string{"spec.from[0]" + forbidden, "spec.to" + forbidden, "spec.skill" + forbidden}},
		"no source at all is a fault of the list": {change: func(s *v1alpha1.CompileTaskSpec) { s.From = nil }, want: []string{
			"spec.from" + invalid}},
		"every fault is listed": {change: func(s *v1alpha1.CompileTaskSpec) {
			s.From = []string{"viking://temp/a", "viking://user/bob/resources", "viking://resources/../x"}
			s.To, s.Skill = "viking://resources", "viking://resources/no-skill"
			s.Args = rawArgs(`{"api_key": "k", "a": {"user_key": 1}}`)
		}, want: []string{
			"spec.from[0]" + invalid, "spec.from[1]" + forbidden, "spec.from[2]" + invalid, "spec.to" + invalid, "spec.skill" + invalid,
			"spec.args[a][user_key]" + forbidden, "spec.args[api_key]" + forbidden}},
		"args may be empty":                    {change: withArgs(`{}`)},
		"args may hold anything else":          {change: withArgs(`{"model_name":"m","n":[1,2.50,{"deep":null}],"api_keys":1}`)},
		"secret keys are found in lists":       {change: withArgs(`{"a":[{},{"api_key":1}]}`), want: []string{"spec.args[a][1][api_key]" + forbidden}},
		"secret keys are found in any case":    {change: withArgs(`{"API_KEY":1}`), want: []string{"spec.args[API_KEY]" + forbidden}},
		"args of the largest size are fine":    {change: withArgs(argsOf(v1alpha1.MaxArgsBytes))},
		"args a byte larger are not":           {change: withArgs(argsOf(v1alpha1.MaxArgsBytes + 1)), want: []string{"spec.args" + tooLong}},
		"args may nest 32 levels":              {change: withArgs(nested(32))},
		"args may not nest 33 levels":          {change: withArgs(nested(33)), want: []string{"spec.args" + strings.Repeat("[a]", 32) + forbidden}},
		"lists count as levels":                {change: withArgs(`{"a":` + strings.Repeat("[", 32) + strings.Repeat("]", 32) + `}`), want: []string{"spec.args[a]" + strings.Repeat("[0]", 31) + forbidden}},
		"args that are no object are refused":  {change: withArgs(`[1]`), want: []string{"spec.args: FieldValueTypeInvalid"}},
		"args that are no JSON are refused":    {change: withArgs(`{"a":`), want: []string{"spec.args" + invalid}},
		"args followed by more are refused":    {change: withArgs(`{} {}`), want: []string{"spec.args" + invalid}},
		"a key is shown printable and bounded": {change: withArgs(`{"` + strings.Repeat("x", 99) + `\n":{"api_key":1}}`), want: []string{"spec.args[" + strings.Repeat("x", 64) + "…][api_key]" + forbidden}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ValidateCompileTask(makeTask(tc.change), nil, viking.Caller{User: "alice"}, false)
			if diff := cmp.Diff(tc.want, brief(got)); diff != "" {
				t.Errorf("faults (-want +got):\n%s\n%v", diff, got)
			}
		})
	}
}

func foreignTrees(s *v1alpha1.CompileTaskSpec) {
	s.From = []string{"viking://user/bob/resources/a"}
	s.To = "viking://user/bob/resources/b"
	s.Skill = "viking://user/bob/skills/c"
}

func withArgs(text string) func(*v1alpha1.CompileTaskSpec) {
	return func(s *v1alpha1.CompileTaskSpec) { s.Args = rawArgs(text) }
}

func argsOf(size int) string {
	const frame = len(`{"a":""}`)
	return `{"a":"` + strings.Repeat("x", size-frame) + `"}`
}

func nested(levels int) string {
	return strings.Repeat(`{"a":`, levels-1) + `{}` + strings.Repeat("}", levels-1)
}

func TestArgsFaultsAreBoundedAndShowNoValue(t *testing.T) {
	text := "[" + strings.TrimSuffix(strings.Repeat(`{"api_key":"s3cret"},`, 1000), ",") + "]"
	got := ValidateCompileTask(makeTask(withArgs(`{"a":`+text+`}`)), nil, viking.Caller{User: "alice"}, false)
	if len(got) != maxArgsFaults {
		t.Errorf("%d faults, want %d", len(got), maxArgsFaults)
	}
	message := got.ToAggregate().Error()
	if strings.Contains(message, "s3cret") || !strings.Contains(message, "credentialsSecretName") {
		t.Errorf("message %q shows a value, or no way out", message)
	}
}

func TestOnlyPermissionsAreMarkedAsSuch(t *testing.T) {
	task := makeTask(func(s *v1alpha1.CompileTaskSpec) {
		s.From = []string{"viking://user/bob", "nothing"}
		s.Args = rawArgs(`{"api_key":1}`)
	})
	want := map[string]string{"spec.from[0]": originPermission, "spec.from[1]": "", "spec.args[api_key]": ""}
	got := map[string]string{}
	for _, fault := range ValidateCompileTask(task, nil, viking.Caller{User: "alice"}, false) {
		got[fault.Field] = fault.Origin
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("origins (-want +got):\n%s", diff)
	}
}

func TestValidateChangedCompileTask(t *testing.T) {
	cases := map[string]struct {
		old, new string
		wantSame bool
	}{
		"no args":                    {wantSame: true},
		"the same text":              {old: `{"a":1}`, new: `{"a":1}`, wantSame: true},
		"other order and spaces":     {old: `{"a":1,"b":2}`, new: `{ "b":2, "a":1 }`, wantSame: true},
		"an old fault as it was":     {old: `{"api_key":1}`, new: `{"api_key":1}`, wantSame: true},
		"args added":                 {new: `{}`},
		"args removed":               {old: `{}`},
		"a key renamed":              {old: `{"a":1}`, new: `{"b":1}`},
		"a key renamed deep inside":  {old: `{"a":{"b":[{"c":1}]}}`, new: `{"a":{"b":[{"d":1}]}}`},
		"a key added":                {old: `{"a":1}`, new: `{"a":1,"b":2}`},
		"a key added with null":      {old: `{"a":1}`, new: `{"a":1,"b":null}`},
		"a key removed":              {old: `{"a":1,"b":2}`, new: `{"a":1}`},
		"a value altered":            {old: `{"a":1}`, new: `{"a":2}`},
		"a number written otherwise": {old: `{"a":1}`, new: `{"a":1.0}`},
		"a number beyond doubles":    {old: `{"a":9007199254740993}`, new: `{"a":9007199254740992}`},
		"a list in another order":    {old: `{"a":[1,2]}`, new: `{"a":[2,1]}`},
		"what is no JSON":            {old: `{"a":1}`, new: `{"a"`},
	}
	extension := func(text string) *runtime.RawExtension {
		if text == "" {
			return nil
		}
		return rawArgs(text)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			old := makeTask(func(s *v1alpha1.CompileTaskSpec) { s.Args, s.To = extension(tc.old), "an old fault" })
			task := makeTask(func(s *v1alpha1.CompileTaskSpec) { s.Args, s.To = extension(tc.new), "an old fault" })
			var want []string
			if !tc.wantSame {
				want = []string{"spec.args: FieldValueForbidden"}
			}
			if diff := cmp.Diff(want, brief(ValidateCompileTask(task, old, viking.Caller{User: "alice"}, false))); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}
