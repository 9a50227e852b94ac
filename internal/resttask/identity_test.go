package resttask

import (
	"bytes"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/sealed"
)

func newRing(t *testing.T) *sealed.KeyRing {
	t.Helper()
	return parseRing(t, sealed.GenerateKeyRingData())
}

func parseRing(t *testing.T, data map[string][]byte) *sealed.KeyRing {
	t.Helper()
	ring, err := sealed.ParseKeyRing(data)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// namelessRing is a ring of an installation that has no name key yet.
func namelessRing(t *testing.T) *sealed.KeyRing {
	t.Helper()
	return parseRing(t, map[string][]byte{sealed.PrimaryEntry: []byte("a"), "key-a": bytes.Repeat([]byte("K"), sealed.KeyBytes)})
}

const someName = "cmp-0123456789abcdef0123456789abcdef"

func restTask(mark string) *v1alpha1.CompileTask {
	received := metav1.NewMicroTime(time.Date(2026, 3, 1, 10, 0, 0, 1000, time.UTC))
	return &v1alpha1.CompileTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: someName},
		Spec: v1alpha1.CompileTaskSpec{
			Requester:   v1alpha1.Requester{Username: "alice"},
			RESTRequest: &v1alpha1.RESTRequest{Mark: mark, ReceivedTime: &received},
		},
	}
}

// receivedLater is the same task made again a moment later.
func receivedLater(task *v1alpha1.CompileTask) {
	later := metav1.NewMicroTime(task.Spec.RESTRequest.ReceivedTime.Add(time.Microsecond))
	task.Spec.RESTRequest.ReceivedTime = &later
}

func TestNamesHaveTheFormOfTheRESTAPI(t *testing.T) {
	ring := newRing(t)
	keyed := KeyedName(ring, "team-a", "alice", "key")
	for what, name := range map[string]string{"random": RandomName(), "keyed": keyed} {
		task := v1alpha1.CompileTask{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if !IsName(name) || task.TaskID() != "cmp_"+name[len("cmp-"):] {
			t.Errorf("%s: %q has task id %q", what, name, task.TaskID())
		}
	}
	if one, other := RandomName(), RandomName(); one == other {
		t.Error("two random names are one")
	}
	if again := KeyedName(ring, "team-a", "alice", "key"); again != keyed {
		t.Errorf("a repeat is named %q, want %q", again, keyed)
	}
	for what, other := range map[string]string{
		"another namespace": KeyedName(ring, "team-b", "alice", "key"),
		"another user":      KeyedName(ring, "team-a", "bob", "key"),
		"another key":       KeyedName(ring, "team-a", "alice", "kez"),
		"another ring":      KeyedName(newRing(t), "team-a", "alice", "key"),
		"a moved bound":     KeyedName(ring, "team-a", "alicek", "ey"),
		"the mark's digits": "cmp-" + Mark(ring, Origin{Namespace: "team-a", Name: "alice"}, "key"),
	} {
		if other == keyed {
			t.Errorf("%s has the same name", what)
		}
	}
	if name := KeyedName(namelessRing(t), "team-a", "alice", "key"); IsName(name) {
		t.Errorf("a ring without a name key made %q", name)
	}
}

func TestMarkFitsOneTaskOfOneRequester(t *testing.T) {
	ring := newRing(t)
	mark := Mark(ring, OriginOf(restTask("")), "alice")
	cases := map[string]struct {
		ring   *sealed.KeyRing
		change func(*v1alpha1.CompileTask)
		want   bool
	}{
		"the task it was made for":  {change: func(*v1alpha1.CompileTask) {}, want: true},
		"another namespace":         {change: func(task *v1alpha1.CompileTask) { task.Namespace = "team-b" }},
		"another name":              {change: func(task *v1alpha1.CompileTask) { task.Name = RandomName() }},
		"another time":              {change: receivedLater},
		"no time":                   {change: func(task *v1alpha1.CompileTask) { task.Spec.RESTRequest.ReceivedTime = nil }},
		"another requester":         {change: func(task *v1alpha1.CompileTask) { task.Spec.Requester.Username = "bob" }},
		"a cut mark":                {change: func(task *v1alpha1.CompileTask) { task.Spec.RESTRequest.Mark = mark[:8] }},
		"no mark":                   {change: func(task *v1alpha1.CompileTask) { task.Spec.RESTRequest.Mark = "" }},
		"no REST request":           {change: func(task *v1alpha1.CompileTask) { task.Spec.RESTRequest = nil }},
		"another ring":              {ring: newRing(t), change: func(*v1alpha1.CompileTask) {}},
		"a ring without a name key": {ring: namelessRing(t), change: func(*v1alpha1.CompileTask) {}},
		"no mark, and no name key":  {ring: namelessRing(t), change: func(task *v1alpha1.CompileTask) { task.Spec.RESTRequest.Mark = "" }},
		"a name of a kubectl user's": {change: func(task *v1alpha1.CompileTask) {
			task.Name = "mine"
			task.Spec.RESTRequest.Mark = Mark(ring, OriginOf(task), "alice")
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			task := restTask(mark)
			tc.change(task)
			checker := ring
			if tc.ring != nil {
				checker = tc.ring
			}
			if got := Marked(checker, task); got != tc.want {
				t.Errorf("Marked = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestMarkSurvivesARotation(t *testing.T) {
	data := sealed.GenerateKeyRingData()
	rotated, err := sealed.RotateKeyRingData(data)
	if err != nil {
		t.Fatal(err)
	}
	old, fresh := parseRing(t, data), parseRing(t, rotated)
	if !Marked(fresh, restTask(Mark(old, OriginOf(restTask("")), "alice"))) || !Marked(old, restTask(Mark(fresh, OriginOf(restTask("")), "alice"))) {
		t.Error("a rotation made marks unfit")
	}
}

func TestDigestTellsRequestsApart(t *testing.T) {
	ring := newRing(t)
	stored := Digest(ring, []byte(`{"n": 1.0}`))
	for request, want := range map[string]bool{`{"n": 1.0}`: true, `{"n": 1}`: false} {
		if got, err := SameRequest(ring, stored, []byte(request)); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", request, got, err, want)
		}
	}
	if _, err := SameRequest(newRing(t), stored, nil); !errors.Is(err, sealed.ErrUnknownKey) {
		t.Errorf("another ring: %v, want ErrUnknownKey", err)
	}
	if _, err := SameRequest(ring, "nonsense", nil); !errors.Is(err, sealed.ErrUnreadable) {
		t.Errorf("no digest: %v, want ErrUnreadable", err)
	}
}
