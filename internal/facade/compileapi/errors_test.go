package compileapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
)

func TestWhatTheAPIServerSaysToACreate(t *testing.T) {
	resource := v1alpha1.GroupVersion.WithResource("compiletasks").GroupResource()
	kind := v1alpha1.GroupVersion.WithKind("CompileTask").GroupKind()
	denied := func(name, text string, causes ...metav1.StatusCause) error {
		err := apierrors.NewForbidden(resource, name, errors.New(text))
		err.ErrStatus.Details.Causes = causes
		return err
	}
	cases := map[string]struct {
		err         error
		wantStatus  int
		wantCode    string
		wantMessage string
		wantHidden  string
		wantRetry   string
	}{
		"RBAC says no": {err: denied("", `User "alice" cannot create resource "compiletasks"`), wantStatus: 403, wantCode: "PERMISSION_DENIED",
			wantMessage: `user "alice" may not create compiletasks in namespace "docs"`},
		"RBAC says no to the facade": {err: denied("", `User "system:serviceaccount:ops:facade" cannot impersonate-on:user-info:create`), wantStatus: 403, wantCode: "PERMISSION_DENIED",
			wantMessage: `user "alice"`, wantHidden: "ops"},
		"the facade may not impersonate": {err: apierrors.NewForbidden(schema.GroupResource{Group: "authentication.k8s.io", Resource: "users"}, "alice",
			errors.New(`User "system:serviceaccount:ops:facade" cannot impersonate`)), wantStatus: 403, wantCode: "PERMISSION_DENIED", wantHidden: "ops"},
		"the caller can't be impersonated": {err: &url.Error{Op: "Post", URL: "https://10.0.0.1", Err: &access.ForbiddenError{Message: `user "alice" has the extra "scopes"`}},
			wantStatus: 403, wantCode: "PERMISSION_DENIED", wantMessage: `user "alice" has the extra "scopes"`, wantHidden: "10.0.0.1"},
		"a quota is used up": {err: denied("cmp-0", "exceeded quota: tasks, requested: count/compiletasks=1, used: 5, limited: 5"), wantStatus: 403, wantCode: "PERMISSION_DENIED",
			wantMessage: "exceeded quota: tasks"},
		"the runtime may not be used": {err: denied("cmp-0", "x", metav1.StatusCause{Field: "spec.runtimeName", Message: `Forbidden: user "alice" may not use AgentRuntime "builtin"`}),
			wantStatus: 403, wantCode: "PERMISSION_DENIED", wantMessage: `spec.runtimeName: Forbidden: user "alice" may not use AgentRuntime "builtin"`},
		"admission finds faults": {err: apierrors.NewInvalid(kind, "cmp-0", field.ErrorList{field.Invalid(field.NewPath("spec", "to"), "x", "is wrong"), field.TooLong(field.NewPath("spec"), "", 5)}),
			wantStatus: 400, wantCode: "INVALID_ARGUMENT", wantMessage: "spec.to: Invalid value: \"x\": is wrong; spec: "},
		"the request is no good":   {err: apierrors.NewBadRequest("no"), wantStatus: 400, wantCode: "INVALID_ARGUMENT", wantMessage: "no"},
		"it is too large":          {err: apierrors.NewRequestEntityTooLargeError("too large"), wantStatus: 400, wantCode: "INVALID_ARGUMENT"},
		"the namespace is missing": {err: apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "docs"), wantStatus: 404, wantCode: "NOT_FOUND", wantMessage: `Namespace "docs" not found`},
		"too many requests":        {err: apierrors.NewTooManyRequests("slow down", 7), wantStatus: 429, wantCode: "RESOURCE_EXHAUSTED", wantRetry: "7"},
		"the server is too slow":   {err: apierrors.NewServerTimeout(resource, "create", 3), wantStatus: 503, wantCode: "UNAVAILABLE", wantRetry: "3"},
		"a time-out":               {err: apierrors.NewTimeoutError("etcd", 0), wantStatus: 503, wantCode: "UNAVAILABLE", wantRetry: "1"},
		"it is unavailable":        {err: apierrors.NewServiceUnavailable("etcd"), wantStatus: 503, wantCode: "UNAVAILABLE", wantHidden: "etcd"},
		"a webhook fails":          {err: apierrors.NewInternalError(errors.New("webhook.ops.svc")), wantStatus: 503, wantCode: "UNAVAILABLE", wantHidden: "ops"},
		"no connection":            {err: errors.New("dial tcp 10.0.0.1"), wantStatus: 503, wantCode: "UNAVAILABLE", wantHidden: "10.0.0.1"},
		"the deadline":             {err: context.DeadlineExceeded, wantStatus: 503, wantCode: "UNAVAILABLE"},
		"what was never heard of":  {err: apierrors.NewGenericServerResponse(418, "post", resource, "", "teapot", 0, true), wantStatus: 500, wantCode: "INTERNAL", wantHidden: "teapot"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.tasks.createErr = tc.err
			got := r.call(http.MethodPost, "/api/v1/compile", plainBody)
			told := got.fails(t, tc.wantStatus, tc.wantCode)
			if !strings.Contains(told.Message, tc.wantMessage) || tc.wantHidden != "" && strings.Contains(got.body, tc.wantHidden) {
				t.Errorf("message %q", told.Message)
			}
			if tc.wantRetry != "" && got.header.Get("Retry-After") != tc.wantRetry {
				t.Errorf("Retry-After %q, want %q", got.header.Get("Retry-After"), tc.wantRetry)
			}
		})
	}
}

func TestRefusalsAreBounded(t *testing.T) {
	r := newRig(t)
	var faults field.ErrorList
	for range 1000 {
		faults = append(faults, field.Invalid(field.NewPath("spec"), strings.Repeat("ü", 50), "is wrong"))
	}
	r.tasks.createErr = apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("CompileTask").GroupKind(), "x", faults)
	got := r.call(http.MethodPost, "/api/v1/compile", plainBody)
	got.fails(t, http.StatusBadRequest, "INVALID_ARGUMENT")
	if len(got.body) > 2<<10 {
		t.Errorf("%d bytes are told", len(got.body))
	}
}

func TestNobodyCanSayWhoMayRead(t *testing.T) {
	r := newRig(t)
	task := r.seed("one", nil)
	r.rights.fail(errors.New("10.0.0.1 is down"))
	for _, target := range []string{"/api/v1/tasks", "/api/v1/tasks/" + task.TaskID(), "/api/v1/tasks/cmp_x", "/api/v1/compile/submissions/0123456789abcdef"} {
		got := r.call(http.MethodGet, target, "")
		got.fails(t, http.StatusServiceUnavailable, "UNAVAILABLE")
		if strings.Contains(got.body, "10.0.0.1") {
			t.Errorf("shown: %s", got.body)
		}
	}
}
