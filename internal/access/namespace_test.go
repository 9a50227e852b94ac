package access_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
)

func TestResolveNamespace(t *testing.T) {
	person := access.Caller{User: v1alpha1.Requester{Username: "alice"}, Method: access.MethodToken}
	robot := access.Caller{User: v1alpha1.Requester{Username: "system:serviceaccount:robots:r"}, Method: access.MethodToken}
	keyed := access.Caller{User: robot.User, Method: access.MethodAPIKey, Namespace: "keyed"}
	cases := map[string]struct {
		path    string
		caller  access.Caller
		account []string
		byFlag  string
		want    string
		wantErr error
	}{
		"the path wins":                             {path: "docs", caller: robot, account: []string{"other"}, byFlag: "default", want: "docs"},
		"the path may be the key's own":             {path: "keyed", caller: keyed, want: "keyed"},
		"a key can't leave its namespace":           {path: "docs", caller: keyed, wantErr: access.ErrForbidden},
		"a key's namespace":                         {caller: keyed, byFlag: "default", want: "keyed"},
		"a key's holder's account is ignored":       {caller: keyed, account: []string{"Other!", "x"}, want: "keyed"},
		"the account":                               {caller: robot, account: []string{" docs "}, byFlag: "default", want: "docs"},
		"a ServiceAccount's own":                    {caller: robot, byFlag: "default", want: "robots"},
		"an empty account is none":                  {caller: robot, account: []string{""}, byFlag: "default", want: "robots"},
		"the default":                               {caller: person, byFlag: "default", want: "default"},
		"none at all":                               {caller: person, wantErr: access.ErrInvalidNamespace},
		"a path that is no name":                    {path: "Docs", caller: person, wantErr: access.ErrInvalidNamespace},
		"a path that is no name, by a key's holder": {path: "a/b", caller: keyed, wantErr: access.ErrInvalidNamespace},
		"an account that is no name":                {caller: person, account: []string{"acme corp"}, byFlag: "default", wantErr: access.ErrInvalidNamespace},
		"an account that is too long":               {caller: person, account: []string{strings.Repeat("a", 64)}, wantErr: access.ErrInvalidNamespace},
		"two accounts":                              {caller: person, account: []string{"docs", "docs"}, byFlag: "default", wantErr: access.ErrInvalidNamespace},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := access.ResolveNamespace(tc.path, tc.caller, tc.account, tc.byFlag)
			if got != tc.want || !errors.Is(err, tc.wantErr) {
				t.Errorf("ResolveNamespace = %q, %v; want %q, %v", got, err, tc.want, tc.wantErr)
			}
		})
	}
}

func TestAnErrorRepeatsLittleOfALongAccount(t *testing.T) {
	_, err := access.ResolveNamespace("", access.Caller{}, []string{strings.Repeat("A", 1<<16)}, "")
	if err == nil || len(err.Error()) > 300 {
		t.Errorf("error of %d bytes", len(err.Error()))
	}
}
