package resttask

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/sealed"
)

const exactArgs = `{"b" : 12345678901234567890, "a":1.0,  "c":1e2, "html":"<&>"}`

func TestArgsComeBackByteForByte(t *testing.T) {
	ring := newRing(t)
	task := restTask("")
	body, err := SealArgs(ring, OriginOf(task), json.RawMessage(exactArgs))
	if err != nil {
		t.Fatal(err)
	}
	task.Spec.SealedArgs = body
	got, err := OpenArgs(ring, task)
	if err != nil || string(got) != exactArgs {
		t.Errorf("opened to %s, %v", got, err)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "html"}, body.Keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if body.Size != int64(len(exactArgs)) || body.MAC == "" || strings.Contains(string(body.Data), "12345") {
		t.Errorf("body %+v", body)
	}
	if got, err := OpenArgs(ring, restTask("")); got != nil || err != nil {
		t.Errorf("a task without sealed args has %s, %v", got, err)
	}
}

func TestSealArgsRefuses(t *testing.T) {
	ring := newRing(t)
	for what, args := range map[string]string{"nothing": "", "null": "null", "a list": "[1]", "cut JSON": `{"password-like`} {
		if _, err := SealArgs(ring, Origin{Namespace: "ns", Name: someName}, json.RawMessage(args)); err == nil || strings.Contains(err.Error(), "password") {
			t.Errorf("%s: %v", what, err)
		}
	}
	large := json.RawMessage(`{"a":"` + strings.Repeat("x", v1alpha1.MaxArgsBytes) + `"}`)
	if _, err := SealArgs(ring, Origin{Namespace: "ns", Name: someName}, large); !errors.Is(err, sealed.ErrTooLarge) {
		t.Errorf("large args: %v, want ErrTooLarge", err)
	}
}

func TestKeysStayInTheirBounds(t *testing.T) {
	members := map[string]int{"": 1, strings.Repeat("k", maxKeyCharacters+1): 1, strings.Repeat("é", maxKeyCharacters): 1}
	for i := range 2 * maxKeys {
		members[fmt.Sprintf("%03d", i)] = i
	}
	args, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	body, err := SealArgs(newRing(t), Origin{Namespace: "ns", Name: someName}, args)
	if err != nil {
		t.Fatal(err)
	}
	if len(body.Keys) != maxKeys || body.Keys[0] != "000" {
		t.Errorf("keys %v", body.Keys)
	}
}

func TestCredentialsComeBackByteForByte(t *testing.T) {
	ring := newRing(t)
	cases := map[string]struct {
		credentials Credentials
		wantKeys    []string
	}{
		"a key":           {Credentials{APIKey: "sk-top-secret"}, []string{"apiKey"}},
		"args":            {Credentials{Args: json.RawMessage(exactArgs)}, []string{"args"}},
		"a key with args": {Credentials{APIKey: "sk-top-secret", Args: json.RawMessage(exactArgs)}, []string{"apiKey", "args"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			task := restTask("")
			body, err := SealCredentials(ring, OriginOf(task), tc.credentials)
			if err != nil {
				t.Fatal(err)
			}
			task.Spec.SealedCredentials = body
			got, err := OpenCredentials(ring, task)
			if err != nil || got.APIKey != tc.credentials.APIKey || string(got.Args) != string(tc.credentials.Args) || (got.Args == nil) != (tc.credentials.Args == nil) {
				t.Errorf("opened to another, %v", err)
			}
			if diff := cmp.Diff(tc.wantKeys, body.Keys); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
		})
	}
	if got, err := OpenCredentials(ring, restTask("")); !got.Empty() || err != nil {
		t.Errorf("a task without credentials: %v", err)
	}
	if _, err := SealCredentials(ring, Origin{Namespace: "ns", Name: someName}, Credentials{}); err == nil {
		t.Error("sealed nothing")
	}
	if _, err := SealCredentials(ring, Origin{Namespace: "ns", Name: someName}, Credentials{Args: json.RawMessage("[]")}); err == nil {
		t.Error("sealed args that are no object")
	}
}

// A body is of use in its own place only.
func TestBodiesCanNotBeMoved(t *testing.T) {
	ring := newRing(t)
	args, err := SealArgs(ring, OriginOf(restTask("")), json.RawMessage(exactArgs))
	if err != nil {
		t.Fatal(err)
	}
	credentials, err := SealCredentials(ring, OriginOf(restTask("")), Credentials{APIKey: "sk-top-secret"})
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		ring   *sealed.KeyRing
		change func(*v1alpha1.CompileTask)
		want   error
	}{
		"to another namespace": {change: func(task *v1alpha1.CompileTask) { task.Namespace = "team-b" }, want: sealed.ErrUnreadable},
		"to another name":      {change: func(task *v1alpha1.CompileTask) { task.Name = RandomName() }, want: sealed.ErrUnreadable},
		"to another time":      {change: receivedLater, want: sealed.ErrUnreadable},
		"to the other field": {
			change: func(task *v1alpha1.CompileTask) {
				task.Spec.SealedArgs, task.Spec.SealedCredentials = task.Spec.SealedCredentials, task.Spec.SealedArgs
			}, want: sealed.ErrUnreadable,
		},
		"to another cluster": {ring: newRing(t), change: func(*v1alpha1.CompileTask) {}, want: sealed.ErrUnknownKey},
		"as an empty one": {
			change: func(task *v1alpha1.CompileTask) {
				task.Spec.SealedArgs, task.Spec.SealedCredentials = &v1alpha1.SealedBody{}, &v1alpha1.SealedBody{}
			}, want: sealed.ErrUnreadable,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			task := restTask("")
			task.Spec.SealedArgs, task.Spec.SealedCredentials = args, credentials
			tc.change(task)
			opener := ring
			if tc.ring != nil {
				opener = tc.ring
			}
			if got, err := OpenArgs(opener, task); !errors.Is(err, tc.want) || got != nil {
				t.Errorf("args: %s, %v, want %v", got, err, tc.want)
			}
			if got, err := OpenCredentials(opener, task); !errors.Is(err, tc.want) || !got.Empty() {
				t.Errorf("credentials: %v, want %v", err, tc.want)
			}
		})
	}
}

func TestCredentialsDoNotShow(t *testing.T) {
	c := Credentials{APIKey: "sk-top-secret", Args: json.RawMessage(`{"api_key":"sk-top-secret"}`)}
	encoded, err := json.Marshal(map[string]any{"c": c})
	if err != nil {
		t.Fatal(err)
	}
	shown := []string{string(encoded), c.LogValue().String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		shown = append(shown, fmt.Sprintf(verb, c), fmt.Sprintf(verb, &c), fmt.Sprintf(verb, []Credentials{c}))
	}
	for _, text := range shown {
		if strings.Contains(text, "top-secret") || !strings.Contains(text, "[REDACTED]") {
			t.Errorf("shows %s", text)
		}
	}
}

func TestOpenResult(t *testing.T) {
	ring := newRing(t)
	task := restTask("")
	task.UID = "u-1"
	box, err := ring.Seal([]byte(exactArgs), ResultBinding(task))
	if err != nil {
		t.Fatal(err)
	}
	payload := func(owner string, data *v1alpha1.PayloadData) *v1alpha1.Payload {
		return &v1alpha1.Payload{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: task.Namespace, Name: ResultPayloadName(task),
				OwnerReferences: []metav1.OwnerReference{{Kind: "CompileTask", Name: task.Name, UID: task.UID, Controller: ptr.To(owner == "u-1")}},
			},
			Spec: v1alpha1.PayloadSpec{Data: data},
		}
	}
	whole := &v1alpha1.PayloadData{Sealed: box.Marshal()}
	if got, err := OpenResult(ring, task, payload("u-1", whole)); err != nil || string(got) != exactArgs {
		t.Errorf("opened to %s, %v", got, err)
	}
	elsewhere := task.DeepCopy()
	elsewhere.Name = RandomName()
	cases := map[string]struct {
		task    *v1alpha1.CompileTask
		payload *v1alpha1.Payload
	}{
		"a claim without data":   {task, payload("u-1", nil)},
		"another owner's":        {task, payload("u-2", whole)},
		"a cut body":             {task, payload("u-1", &v1alpha1.PayloadData{Sealed: box.Marshal()[:40]})},
		"another task's content": {elsewhere, payload("u-1", whole)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got, err := OpenResult(ring, tc.task, tc.payload); !errors.Is(err, sealed.ErrUnreadable) || got != nil {
				t.Errorf("opened to %s, %v, want ErrUnreadable", got, err)
			}
		})
	}
}
