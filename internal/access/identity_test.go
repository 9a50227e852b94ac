package access_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
)

func TestRefused(t *testing.T) {
	cases := map[string]struct {
		user   string
		groups []string
		want   error
	}{
		"a person":         {user: "alice", groups: []string{"docs", "system:authenticated"}},
		"a ServiceAccount": {user: "system:serviceaccount:docs:robot", groups: []string{"system:serviceaccounts", "system:serviceaccounts:docs"}},
		"another ServiceAccount of the operator's":   {user: "system:serviceaccount:ops:ci"},
		"another namespace's agentruntime-manager":   {user: "system:serviceaccount:docs:agentruntime-manager"},
		"a person with a name like a node's":         {user: "system:nodes"},
		"an admin whom RBAC does not bind":           {user: "root", groups: []string{"system:masters"}, want: access.ErrForbidden},
		"one of the nodes":                           {user: "n1", groups: []string{"system:nodes"}, want: access.ErrForbidden},
		"a node":                                     {user: "system:node:n1", want: access.ErrForbidden},
		"the scheduler":                              {user: "system:kube-scheduler", want: access.ErrForbidden},
		"the masters' name":                          {user: "system:masters", want: access.ErrForbidden},
		"the API server":                             {user: "system:apiserver", want: access.ErrForbidden},
		"a ServiceAccount of kube-system":            {user: "system:serviceaccount:kube-system:robot", want: access.ErrForbidden},
		"one who has the rights of kube-system's":    {user: "x", groups: []string{"system:serviceaccounts:kube-system"}, want: access.ErrForbidden},
		"the operator's manager":                     {user: "system:serviceaccount:ops:agentruntime-manager", want: access.ErrForbidden},
		"the facade itself":                          {user: "system:serviceaccount:ops:agentruntime-facade", want: access.ErrForbidden},
		"nobody":                                     {user: "", want: access.ErrUnauthenticated},
		"anonymous":                                  {user: "system:anonymous", want: access.ErrUnauthenticated},
		"somebody whom the API server does not know": {user: "alice", groups: []string{"system:unauthenticated"}, want: access.ErrUnauthenticated},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := access.Refused(v1alpha1.Requester{Username: tc.user, Groups: tc.groups}, "ops")
			if !errors.Is(err, tc.want) {
				t.Errorf("Refused: %v, want %v", err, tc.want)
			}
		})
	}
}

func TestAuthenticatedAddsTheGroupOnce(t *testing.T) {
	groups := slices.Grow([]string{"docs"}, 8)
	want := []string{"docs", "system:authenticated"}
	got := access.Authenticated(groups)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, access.Authenticated(got)); diff != "" {
		t.Errorf("groups the second time (-want +got):\n%s", diff)
	}
	if spare := groups[:2]; spare[1] != "" {
		t.Errorf("the spare room of what was given was written to: %q", spare)
	}
}
