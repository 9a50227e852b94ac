package compiletask

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSecretsIn(t *testing.T) {
	cases := map[string]struct {
		args string
		want []string
	}{
		"nothing":                            {},
		"no secret key":                      {args: `{"model":"hunter2","api_keys":"hunter2"}`},
		"a value":                            {args: `{"api_key":"hunter2"}`, want: []string{"hunter2"}},
		"either key, in any case":            {args: `{"API_KEY":"one1","User_Key":"two2"}`, want: []string{"one1", "two2"}},
		"deep inside":                        {args: `{"a":[1,{"b":{"api_key":"hunter2"}},"x"],"c":"open"}`, want: []string{"hunter2"}},
		"all that is below a secret key":     {args: `{"api_key":{"name":"a-name","list":["in-it",{"x":"deeper"}]},"after":"open"}`, want: []string{"a-name", "in-it", "deeper"}},
		"every member of one name":           {args: `{"api_key":"first","api_key":"second"}`, want: []string{"first", "second"}},
		"a number, in its own text":          {args: `{"user_key":1234567890123456789012.50}`, want: []string{"1234567890123456789012.50"}},
		"neither true nor null":              {args: `{"user_key":true,"api_key":null,"x":"open"}`},
		"none that would blot out all text":  {args: `{"api_key":"abc","user_key":""}`},
		"each once":                          {args: `{"api_key":"same","a":{"user_key":"same"}}`, want: []string{"same"}},
		"as it is, not as it is written":     {args: `{"api\u005fkey":"a\u0062cd\n"}`, want: []string{"abcd\n"}},
		"not what follows a container":       {args: `{"api_key":[],"x":"open","api_key":{},"y":"open"}`},
		"in a list beside what is not":       {args: `[{"api_key":"hunter2"},"open"]`, want: []string{"hunter2"}},
		"however deep":                       {args: strings.Repeat(`{"a":`, 5000) + `{"api_key":"hunter2"}` + strings.Repeat("}", 5000), want: []string{"hunter2"}},
		"not a name that is a secret's name": {args: `{"x":"api_key","y":"open"}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := secretsIn(json.RawMessage(tc.args))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("secrets (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSecretsAreBounded(t *testing.T) {
	list := func(n int) json.RawMessage {
		var values []string
		for i := range n {
			values = append(values, fmt.Sprintf("%q", fmt.Sprint("secret-", i)))
		}
		return json.RawMessage(`{"api_key":[` + strings.Join(values, ",") + `]}`)
	}
	if got, err := secretsIn(list(maxSecrets)); err != nil || len(got) != maxSecrets {
		t.Errorf("%d secrets: %d, %v", maxSecrets, len(got), err)
	}
	if got, err := secretsIn(list(maxSecrets + 1)); !errors.Is(err, errTooManySecrets) || got != nil {
		t.Errorf("one more: %d, %v", len(got), err)
	}
	if _, err := secretsIn(json.RawMessage(`{"api_key":"hunter2`)); err == nil || strings.Contains(err.Error(), "hunter") {
		t.Errorf("cut args: %v", err)
	}
}
