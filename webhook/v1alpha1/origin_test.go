package v1alpha1

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/viking"
)

func TestNamesOfTheRESTAPIAreRefused(t *testing.T) {
	cases := map[string]struct {
		name string
		want []string
	}{
		"a name that makes the id":      {name: "cmp-0123456789abcdef0123456789abcdef", want: []string{"metadata.name: FieldValueInvalid"}},
		"a digit less":                  {name: "cmp-0123456789abcdef0123456789abcde"},
		"a digit more":                  {name: "cmp-0123456789abcdef0123456789abcdef0"},
		"a letter that is no hex digit": {name: "cmp-0123456789abcdef0123456789abcdeg"},
		"another prefix":                {name: "x-cmp-0123456789abcdef0123456789abcdef"},
		"no name yet":                   {},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			task := makeTask(nil)
			task.Name = tc.name
			got := ValidateCompileTask(task, nil, viking.Caller{User: "alice"}, false)
			if diff := cmp.Diff(tc.want, brief(got)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			if got != nil && !strings.Contains(got.ToAggregate().Error(), "choose another") {
				t.Errorf("%v does not say what to do", got)
			}
			if changed := ValidateCompileTask(task, task.DeepCopy(), viking.Caller{}, false); len(changed) > 0 {
				t.Errorf("an update is refused: %v", changed)
			}
		})
	}
}

func TestOnlyTheRESTAPIMakesWhatIsItsOwn(t *testing.T) {
	const restName = "cmp-0123456789abcdef0123456789abcdef"
	const request, name = "spec.restRequest: FieldValueForbidden", "metadata.name: FieldValueInvalid"
	cases := map[string]struct {
		name   string
		marked bool
		change func(*v1alpha1.CompileTaskSpec)
		want   []string
	}{
		"a task of the REST API":            {name: restName, marked: true, change: fromREST},
		"one with sealed bodies":            {name: restName, marked: true, change: withSealed(fromREST)},
		"a mark that does not fit":          {name: restName, change: withSealed(fromREST), want: []string{request}},
		"another name":                      {name: "mine", change: fromREST, want: []string{request}},
		"another name, however it is told":  {name: "mine", marked: true, change: fromREST, want: []string{request}},
		"no name yet":                       {marked: true, change: fromREST, want: []string{request}},
		"a name alone":                      {name: restName, want: []string{name}},
		"sealed bodies alone":               {name: "mine", change: withSealed(nil), want: []string{"spec.sealedArgs: FieldValueForbidden", "spec.sealedCredentials: FieldValueForbidden"}},
		"all but the request":               {name: restName, change: withSealed(nil), want: []string{name, "spec.sealedArgs: FieldValueForbidden", "spec.sealedCredentials: FieldValueForbidden"}},
		"secrets in args of the REST API's": {name: restName, marked: true, change: func(s *v1alpha1.CompileTaskSpec) { fromREST(s); s.Args = rawArgs(`{"api_key":1}`) }, want: []string{"spec.args[api_key]: FieldValueForbidden"}},
	}
	for what, tc := range cases {
		t.Run(what, func(t *testing.T) {
			task := makeTask(tc.change)
			task.Name = tc.name
			got := ValidateCompileTask(task, nil, viking.Caller{User: "alice"}, tc.marked)
			if diff := cmp.Diff(tc.want, brief(got)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func fromREST(s *v1alpha1.CompileTaskSpec) { s.RESTRequest = &v1alpha1.RESTRequest{Mark: "m"} }

func withSealed(change func(*v1alpha1.CompileTaskSpec)) func(*v1alpha1.CompileTaskSpec) {
	return func(s *v1alpha1.CompileTaskSpec) {
		if change != nil {
			change(s)
		}
		s.SealedArgs = &v1alpha1.SealedBody{Data: []byte("x"), Size: 1}
		s.SealedCredentials = &v1alpha1.SealedBody{Data: []byte("x"), Size: 1}
	}
}
