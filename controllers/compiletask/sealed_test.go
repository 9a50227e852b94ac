package compiletask

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/resttask"
	"github.com/agentruntime/operator/internal/sealed"
	"github.com/agentruntime/operator/internal/viking"
)

func newRing(t *testing.T) *sealed.KeyRing {
	t.Helper()
	ring, err := sealed.ParseKeyRing(sealed.GenerateKeyRingData())
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// sealedTask has whatever of args and credentials is not empty sealed in it.
func sealedTask(t *testing.T, ring *sealed.KeyRing, args string, c resttask.Credentials) *v1alpha1.CompileTask {
	t.Helper()
	task := &v1alpha1.CompileTask{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: resttask.RandomName()}}
	var err error
	if args != "" {
		if task.Spec.SealedArgs, err = resttask.SealArgs(ring, resttask.OriginOf(task), json.RawMessage(args)); err != nil {
			t.Fatal(err)
		}
	}
	if !c.Empty() {
		if task.Spec.SealedCredentials, err = resttask.SealCredentials(ring, resttask.OriginOf(task), c); err != nil {
			t.Fatal(err)
		}
	}
	return task
}

func TestOpenBodies(t *testing.T) {
	const public, whole = `{"n":1.0}`, `{"n":1.0,"api_key":"hunter2"}`
	ring := newRing(t)
	cases := map[string]struct {
		args        string
		credentials resttask.Credentials
		change      func(*v1alpha1.CompileTask)
		want        unsealed
		wantArgs    string
	}{
		"a task with plain args": {
			change:   func(task *v1alpha1.CompileTask) { task.Spec.Args = &runtime.RawExtension{Raw: []byte(`{"p":1}`)} },
			wantArgs: `{"p":1}`,
		},
		"sealed args":                            {args: public, want: unsealed{args: json.RawMessage(public)}, wantArgs: public},
		"a forwarded key":                        {credentials: resttask.Credentials{APIKey: "sk-1"}, want: unsealed{apiKey: "sk-1"}},
		"args with secrets before the rest":      {args: public, credentials: resttask.Credentials{APIKey: "sk-1", Args: json.RawMessage(whole)}, want: unsealed{apiKey: "sk-1", args: json.RawMessage(whole), secrets: []string{"hunter2"}}, wantArgs: whole},
		"no args once the executor has the task": {args: public, credentials: resttask.Credentials{Args: json.RawMessage(whole)}, change: func(task *v1alpha1.CompileTask) { task.Status.SessionID = "s" }, want: unsealed{secrets: []string{"hunter2"}}},
		"empty args, which are left out":         {credentials: resttask.Credentials{Args: json.RawMessage(`{}`)}, want: unsealed{args: json.RawMessage(`{}`)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			task := sealedTask(t, ring, tc.args, tc.credentials)
			if tc.change != nil {
				tc.change(task)
			}
			got, err := openBodies(ring, task)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, *got, cmp.AllowUnexported(unsealed{})); diff != "" {
				t.Errorf("opened (-want +got):\n%s", diff)
			}
			if payload := payloadOf(task, viking.Canonical{}, got); string(payload.Args) != tc.wantArgs {
				t.Errorf("args sent: %s, want %s", payload.Args, tc.wantArgs)
			}
		})
	}
}

func TestWhatCanNotBeOpenedEndsTheTask(t *testing.T) {
	ring := newRing(t)
	many := make([]string, maxSecrets+1)
	for i := range many {
		many[i] = fmt.Sprintf(`{"api_key":"secret-%d"}`, i)
	}
	cases := map[string]struct {
		ring       *sealed.KeyRing
		args       string
		change     func(*v1alpha1.CompileTask)
		wantReason string
		wantText   string
	}{
		"a lost key":       {ring: newRing(t), wantReason: v1alpha1.ReasonSealedBodyUnreadable, wantText: "INTERNAL: What the REST API sealed into the task can't be opened: its key is not in"},
		"credentials gone": {change: func(task *v1alpha1.CompileTask) { task.Spec.SealedCredentials.Data[40] ^= 1 }, wantReason: v1alpha1.ReasonSealedBodyUnreadable, wantText: "send the request again"},
		"args gone":        {change: func(task *v1alpha1.CompileTask) { task.Spec.SealedArgs.Data = nil }, wantReason: v1alpha1.ReasonSealedBodyUnreadable, wantText: "send the request again"},
		"too many secrets": {args: `{"a":[` + strings.Join(many, ",") + `]}`, wantReason: v1alpha1.ReasonInvalidRequest, wantText: "INVALID_ARGUMENT: args have more than 64 values"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.args == "" {
				tc.args = `{"api_key":"hunter2"}`
			}
			task := sealedTask(t, ring, `{"n":1}`, resttask.Credentials{APIKey: "sk-1", Args: json.RawMessage(tc.args)})
			if tc.change != nil {
				tc.change(task)
			}
			opener := ring
			if tc.ring != nil {
				opener = tc.ring
			}
			got, err := openBodies(opener, task)
			if err == nil || got != nil {
				t.Fatal("opened")
			}
			end := unreadable(err)
			if end.condition != v1alpha1.ConditionFailed || end.reason != tc.wantReason || !strings.Contains(end.message, tc.wantText) || len(end.err.Message) > 500 {
				t.Errorf("ends as %s/%s: %s", end.condition, end.reason, end.message)
			}
		})
	}
}

func TestTheArgsAreForgottenOnceTheExecutorHasThem(t *testing.T) {
	at := newAttempts().of(version("1", ""))
	at.setOpened(&unsealed{apiKey: "sk-1", args: json.RawMessage(`{"api_key":"hunter2"}`), secrets: []string{"hunter2"}})
	at.learn("session", epoch)
	want := &unsealed{apiKey: "sk-1", secrets: []string{"hunter2"}}
	if diff := cmp.Diff(want, at.opened(), cmp.AllowUnexported(unsealed{})); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"sk-1", "hunter2"}, at.opened().all()); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
}
