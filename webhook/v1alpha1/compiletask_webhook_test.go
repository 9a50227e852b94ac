package v1alpha1

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/resttask"
	"github.com/agentruntime/operator/internal/sealed"
)

var alice = authenticationv1.UserInfo{
	Username: "alice", UID: "u-1", Groups: []string{"docs", "system:authenticated"},
	Extra: map[string]authenticationv1.ExtraValue{"scopes": {"a"}},
}

func asUser(ctx context.Context, user authenticationv1.UserInfo, operation admissionv1.Operation) context.Context {
	return admission.NewContextWithRequest(ctx, admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: operation, Namespace: "docs", UserInfo: user,
	}})
}

func runtimesOf(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatalf("make scheme: %v", err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
}

func agentRuntime(name string, marked bool, age time.Duration) *v1alpha1.AgentRuntime {
	created := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).Add(-age)
	out := &v1alpha1.AgentRuntime{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(created)}}
	if marked {
		out.Annotations = map[string]string{v1alpha1.AnnotationDefaultRuntime: "true"}
	}
	return out
}

func TestDefault(t *testing.T) {
	stamped := v1alpha1.Requester{
		Username: "alice", UID: "u-1", Groups: []string{"docs", "system:authenticated"},
		Extra: map[string]v1alpha1.ExtraValue{"scopes": {"a"}},
	}
	forged := v1alpha1.Requester{Username: "root", UID: "0", Groups: []string{"system:masters"}, Extra: map[string]v1alpha1.ExtraValue{"x": {"y"}}}
	cases := map[string]struct {
		runtimes      []client.Object
		operation     admissionv1.Operation
		named         string
		wantRequester v1alpha1.Requester
		wantRuntime   string
	}{
		"the stamp replaces what was sent":          {operation: admissionv1.Create, wantRequester: stamped},
		"the default runtime is filled in":          {operation: admissionv1.Create, runtimes: []client.Object{agentRuntime("a", false, 0), agentRuntime("b", true, 0)}, wantRequester: stamped, wantRuntime: "b"},
		"of two defaults the newest is":             {operation: admissionv1.Create, runtimes: []client.Object{agentRuntime("a", true, time.Hour), agentRuntime("b", true, time.Minute)}, wantRequester: stamped, wantRuntime: "b"},
		"a named runtime stays":                     {operation: admissionv1.Create, runtimes: []client.Object{agentRuntime("b", true, 0)}, named: "c", wantRequester: stamped, wantRuntime: "c"},
		"an update is left as it is, default or no": {operation: admissionv1.Update, runtimes: []client.Object{agentRuntime("b", true, 0)}, wantRequester: forged},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			task := makeTask(func(s *v1alpha1.CompileTaskSpec) { s.Requester, s.RuntimeName = forged, tc.named })
			d := &compileTaskDefaulter{runtimes: runtimesOf(t, interceptor.Funcs{}, tc.runtimes...)}
			if err := d.Default(asUser(t.Context(), alice, tc.operation), task); err != nil {
				t.Fatalf("Default: %v", err)
			}
			if diff := cmp.Diff(tc.wantRequester, task.Spec.Requester); diff != "" {
				t.Errorf("requester (-want +got):\n%s", diff)
			}
			if task.Spec.RuntimeName != tc.wantRuntime {
				t.Errorf("runtimeName = %q, want %q", task.Spec.RuntimeName, tc.wantRuntime)
			}
		})
	}
}

func TestDefaultFailsClosed(t *testing.T) {
	broken := interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return errors.New("cache not synced")
	}}
	d := &compileTaskDefaulter{runtimes: runtimesOf(t, broken)}
	if err := d.Default(asUser(t.Context(), alice, admissionv1.Create), makeTask(nil)); !apierrors.IsInternalError(err) {
		t.Errorf("without a list of runtimes Default = %v, want an internal error", err)
	}
	if err := d.Default(t.Context(), makeTask(nil)); !apierrors.IsInternalError(err) {
		t.Errorf("without a request Default = %v, want an internal error", err)
	}
}

func TestDefaultRefusesWhoCannotBeRecorded(t *testing.T) {
	groups := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf("g%d", i))
		}
		return out
	}
	extra := func(keys, values int, text string) map[string]authenticationv1.ExtraValue {
		out := map[string]authenticationv1.ExtraValue{}
		for i := range keys {
			for range values {
				key := fmt.Sprintf("k%d", i)
				out[key] = append(out[key], text)
			}
		}
		return out
	}
	cases := map[string]struct {
		user      authenticationv1.UserInfo
		wantField string
	}{
		"all at their bounds": {user: authenticationv1.UserInfo{
			Username: strings.Repeat("ü", 1024), UID: strings.Repeat("u", 1024), Groups: groups(256), Extra: extra(32, 64, "v"),
		}},
		"a name too long":          {user: authenticationv1.UserInfo{Username: strings.Repeat("u", 1025)}, wantField: "spec.requester.username"},
		"a uid too long":           {user: authenticationv1.UserInfo{Username: "a", UID: strings.Repeat("u", 1025)}, wantField: "spec.requester.uid"},
		"too many groups":          {user: authenticationv1.UserInfo{Username: "a", Groups: groups(257)}, wantField: "spec.requester.groups"},
		"a group too long":         {user: authenticationv1.UserInfo{Username: "a", Groups: []string{strings.Repeat("g", 1025)}}, wantField: "spec.requester.groups"},
		"too many extra keys":      {user: authenticationv1.UserInfo{Username: "a", Extra: extra(33, 1, "v")}, wantField: "spec.requester.extra"},
		"too many values of a key": {user: authenticationv1.UserInfo{Username: "a", Extra: extra(1, 65, "v")}, wantField: "spec.requester.extra[k0]"},
		"a value too long":         {user: authenticationv1.UserInfo{Username: "a", Extra: extra(1, 1, strings.Repeat("v", 2049))}, wantField: "spec.requester.extra[k0]"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := &compileTaskDefaulter{runtimes: runtimesOf(t, interceptor.Funcs{})}
			err := d.Default(asUser(t.Context(), tc.user, admissionv1.Create), makeTask(nil))
			if tc.wantField == "" {
				if err != nil {
					t.Errorf("Default: %v", err)
				}
				return
			}
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.wantField) || !strings.Contains(err.Error(), "can't be recorded") {
				t.Errorf("Default = %v, want a fault of %s", err, tc.wantField)
			}
		})
	}
}

// grants allows what it names as "verb resource/name", and notes who asked.
type grants struct {
	allow map[string]bool
	err   error

	mu    sync.Mutex
	asked []v1alpha1.Requester
}

func (g *grants) Allowed(_ context.Context, user v1alpha1.Requester, attrs authorizationv1.ResourceAttributes) (bool, string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, user)
	if attrs.Resource == "secrets" && g.err != nil {
		return false, "", g.err
	}
	return g.allow[attrs.Verb+" "+attrs.Resource+"/"+attrs.Name], "", nil
}

func TestValidateCreate(t *testing.T) {
	cases := map[string]struct {
		change      func(*v1alpha1.CompileTaskSpec)
		allow       []string
		broken      error
		wantCode    int32
		wantTexts   []string
		wantWarning bool
	}{
		"a task that names nothing passes with a warning": {wantWarning: true},
		"a runtime that may be used passes":               {change: func(s *v1alpha1.CompileTaskSpec) { s.RuntimeName = "r" }, allow: []string{"use agentruntimes/r"}},
		"everything granted passes": {change: namesAll, allow: []string{
			"use agentruntimes/r", "get secrets/s", "create serviceaccounts/b"}},
		"everything missing is listed": {change: namesAll, wantCode: http.StatusForbidden, wantTexts: []string{
			"spec.runtimeName", `verb "use" on agentruntimes.agentruntime.dev/r`, "spec.credentialsSecretName", `verb "get" on secrets/s`,
			"spec.serviceAccountName", `verb "create" on serviceaccounts/token for b`, `"alice"`}},
		"one missing is named alone": {change: namesAll, allow: []string{"use agentruntimes/r", "create serviceaccounts/b"},
			wantCode: http.StatusForbidden, wantTexts: []string{"spec.credentialsSecretName"}},
		"a foreign tree is a missing right": {change: foreignTrees, wantCode: http.StatusForbidden, wantTexts: []string{"spec.from[0]", "spec.to", "spec.skill"}},
		"faults and missing rights come together": {change: func(s *v1alpha1.CompileTaskSpec) {
			namesAll(s)
			s.To = "viking://resources"
		}, wantCode: http.StatusUnprocessableEntity, wantTexts: []string{"spec.to", "spec.runtimeName", "spec.credentialsSecretName"}},
		"a failed review is an internal error": {change: namesAll, broken: errors.New("etcd is away"), wantCode: http.StatusInternalServerError, wantTexts: []string{"etcd is away"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			authorizer := &grants{allow: map[string]bool{}, err: tc.broken}
			for _, grant := range tc.allow {
				authorizer.allow[grant] = true
			}
			v := &compileTaskValidator{authorizer: authorizer}
			warnings, err := v.ValidateCreate(asUser(t.Context(), alice, admissionv1.Create), makeTask(tc.change))
			if got := codeOf(err); got != tc.wantCode {
				t.Fatalf("code = %d, want %d: %v", got, tc.wantCode, err)
			}
			for _, text := range tc.wantTexts {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("error %q lacks %q", err, text)
				}
			}
			if (len(warnings) > 0) != tc.wantWarning {
				t.Errorf("warnings = %q", warnings)
			}
			for _, user := range authorizer.asked {
				if diff := cmp.Diff(requesterOf(alice), user); diff != "" {
					t.Errorf("asked as (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func namesAll(s *v1alpha1.CompileTaskSpec) {
	s.RuntimeName, s.CredentialsSecretName, s.ServiceAccountName = "r", "s", "b"
}

func codeOf(err error) int32 {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Code
	}
	return 0
}

// silent answers only when it is no longer wanted.
type silent struct{}

func (silent) Allowed(ctx context.Context, _ v1alpha1.Requester, _ authorizationv1.ResourceAttributes) (bool, string, error) {
	<-ctx.Done()
	return false, "", ctx.Err()
}

func TestReviewsHaveADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &compileTaskValidator{authorizer: silent{}}
		begun := time.Now()
		_, err := v.ValidateCreate(asUser(t.Context(), alice, admissionv1.Create), makeTask(namesAll))
		if codeOf(err) != http.StatusInternalServerError {
			t.Errorf("ValidateCreate = %v, want an internal error", err)
		}
		if took := time.Since(begun); took != reviewTimeout {
			t.Errorf("took %v, want %v: reviews run one after the other", took, reviewTimeout)
		}
	})
}

func TestValidateUpdateAndDelete(t *testing.T) {
	v := &compileTaskValidator{authorizer: silent{}}
	old := makeTask(withArgs(`{"a":1}`))
	if _, err := v.ValidateUpdate(t.Context(), old, makeTask(withArgs(`{"a":1}`))); err != nil {
		t.Errorf("the same args: %v", err)
	}
	if _, err := v.ValidateUpdate(t.Context(), old, makeTask(withArgs(`{"b":1}`))); !apierrors.IsInvalid(err) {
		t.Errorf("a renamed key: %v, want invalid", err)
	}
	if _, err := v.ValidateDelete(t.Context(), old); err != nil {
		t.Errorf("a delete: %v", err)
	}
}

// The user and the namespace of the request count, not what the object says.
func TestAMarkIsForTheUserOfTheRequest(t *testing.T) {
	ring, err := sealed.ParseKeyRing(sealed.GenerateKeyRingData())
	if err != nil {
		t.Fatal(err)
	}
	const name = "cmp-0123456789abcdef0123456789abcdef"
	received := metav1.NowMicro()
	origin := resttask.Origin{Namespace: "docs", Name: name, Received: received.Time}
	mark := resttask.Mark(ring, origin, alice.Username)
	bob := authenticationv1.UserInfo{Username: "bob"}
	cases := map[string]struct {
		ring     *sealed.KeyRing
		user     authenticationv1.UserInfo
		change   func(*v1alpha1.CompileTask)
		wantCode int32
	}{
		"its user":                       {ring: ring, user: alice},
		"somebody else":                  {ring: ring, user: bob, wantCode: http.StatusUnprocessableEntity},
		"somebody else as its user":      {ring: ring, user: bob, change: func(task *v1alpha1.CompileTask) { task.Spec.Requester = requesterOf(alice) }, wantCode: http.StatusUnprocessableEntity},
		"its user, with another's stamp": {ring: ring, user: alice, change: func(task *v1alpha1.CompileTask) { task.Spec.Requester = requesterOf(bob) }},
		"another namespace's mark": {ring: ring, user: alice, change: func(task *v1alpha1.CompileTask) {
			task.Namespace, task.Spec.RESTRequest.Mark = "team", resttask.Mark(ring, resttask.Origin{Namespace: "team", Name: name, Received: received.Time}, alice.Username)
		}, wantCode: http.StatusUnprocessableEntity},
		"no key ring": {user: alice, wantCode: http.StatusUnprocessableEntity},
	}
	for what, tc := range cases {
		t.Run(what, func(t *testing.T) {
			task := makeTask(nil)
			task.Name, task.Spec.RESTRequest = name, &v1alpha1.RESTRequest{Mark: mark, ReceivedTime: &received}
			if tc.change != nil {
				tc.change(task)
			}
			v := &compileTaskValidator{authorizer: &grants{}, keyRing: tc.ring}
			_, err := v.ValidateCreate(asUser(t.Context(), tc.user, admissionv1.Create), task)
			if got := codeOf(err); got != tc.wantCode {
				t.Errorf("code = %d, want %d: %v", got, tc.wantCode, err)
			}
			if err != nil && strings.Contains(err.Error(), mark) {
				t.Errorf("the error shows the mark: %v", err)
			}
		})
	}
}

func TestRefusalsNameTheTask(t *testing.T) {
	task := makeTask(func(s *v1alpha1.CompileTaskSpec) { s.To = "x" })
	task.Name, task.GenerateName = "", "wiki-"
	v := &compileTaskValidator{authorizer: &grants{}}
	_, err := v.ValidateCreate(asUser(t.Context(), alice, admissionv1.Create), task)
	if err == nil || !strings.Contains(err.Error(), `"wiki-" is invalid`) {
		t.Errorf("error = %v", err)
	}
}
