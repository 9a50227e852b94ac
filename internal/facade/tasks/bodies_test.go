package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/resttask"
	"github.com/agentruntime/operator/internal/sealed"
)

const exact = `{"n": 12345678901234567890, "x":1.0}`

// withResult is a task whose result stands in a Payload.
func (r *rig) withResult(t *testing.T, n int, result string) (*v1alpha1.CompileTask, *v1alpha1.Payload) {
	t.Helper()
	task := r.server.put(newTask(n))
	task.Status.ResultPayloadName = resttask.ResultPayloadName(task)
	box, err := r.ring.Seal([]byte(result), resttask.ResultBinding(task))
	if err != nil {
		t.Fatal(err)
	}
	payload := &v1alpha1.Payload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: task.Namespace, Name: task.Status.ResultPayloadName,
			OwnerReferences: []metav1.OwnerReference{{Kind: "CompileTask", Name: task.Name, UID: task.UID, Controller: ptr(true)}},
		},
		Spec: v1alpha1.PayloadSpec{Data: &v1alpha1.PayloadData{Sealed: box.Marshal()}},
	}
	r.server.payloads[keyOf(&v1alpha1.CompileTask{ObjectMeta: payload.ObjectMeta})] = payload
	return task, payload
}

func TestResultsComeFromWhereTheyStand(t *testing.T) {
	r := newRig(t, Limits{})
	inline := newTask(1)
	inline.Status.Result = &runtime.RawExtension{Raw: []byte(`{"a":1}`)}
	if got, err := r.Result(t.Context(), inline); err != nil || string(got) != `{"a":1}` {
		t.Errorf("inline: %s, %v", got, err)
	}
	if got, err := r.Result(t.Context(), newTask(1)); err != nil || got != nil {
		t.Errorf("none: %s, %v", got, err)
	}
	task, _ := r.withResult(t, 2, exact)
	for range 3 {
		if got, err := r.Result(t.Context(), task); err != nil || string(got) != exact {
			t.Errorf("payload: %s, %v", got, err)
		}
	}
	if r.server.reads() != 1 {
		t.Errorf("%d reads, want 1", r.server.reads())
	}
}

func TestResultsFailClosed(t *testing.T) {
	cases := map[string]func(*v1alpha1.Payload){
		"changed":       func(p *v1alpha1.Payload) { p.Spec.Data.Sealed[len(p.Spec.Data.Sealed)-1] ^= 1 },
		"another's":     func(p *v1alpha1.Payload) { p.OwnerReferences[0].UID = "other" },
		"nobody's":      func(p *v1alpha1.Payload) { p.OwnerReferences = nil },
		"only a claim":  func(p *v1alpha1.Payload) { p.Spec.Data = nil },
		"another place": func(p *v1alpha1.Payload) { p.Name = "elsewhere" },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Limits{})
			task, payload := r.withResult(t, 1, exact)
			delete(r.server.payloads, keyOf(&v1alpha1.CompileTask{ObjectMeta: payload.ObjectMeta}))
			change(payload)
			r.server.payloads[keyOf(&v1alpha1.CompileTask{ObjectMeta: payload.ObjectMeta})] = payload
			if got, err := r.Result(t.Context(), task); !errors.Is(err, sealed.ErrUnreadable) || got != nil {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
}

func TestArgsAreExact(t *testing.T) {
	r := newRig(t, Limits{})
	plain := newTask(1)
	plain.Spec.Args = &runtime.RawExtension{Raw: []byte(`{"a":1}`)}
	if got, err := r.Args(t.Context(), plain); err != nil || string(got) != `{"a":1}` {
		t.Errorf("plain: %s, %v", got, err)
	}
	if got, err := r.Args(t.Context(), newTask(1)); err != nil || got != nil {
		t.Errorf("none: %s, %v", got, err)
	}
	task := newTask(2)
	body, err := resttask.SealArgs(r.ring, resttask.OriginOf(task), json.RawMessage(exact))
	if err != nil {
		t.Fatal(err)
	}
	task.Spec.SealedArgs = body
	task = r.sync(r.server.put(task))
	if got, err := r.Args(t.Context(), task); err != nil || string(got) != exact {
		t.Errorf("sealed: %s, %v", got, err)
	}
	moved := r.server.put(newTask(3))
	moved.Spec.SealedArgs = body
	if got, err := r.Args(t.Context(), moved); !errors.Is(err, sealed.ErrUnreadable) || got != nil {
		t.Errorf("moved: %s, %v", got, err)
	}
}

func TestARotatedRingIsReadAnew(t *testing.T) {
	r := newRig(t, Limits{})
	old := r.ring
	r.ring = newRing(t) // what another process sealed with
	task, _ := r.withResult(t, 1, exact)
	r.rings.reload = func() *sealed.KeyRing { return old }
	if _, err := r.Result(t.Context(), task); !errors.Is(err, sealed.ErrUnknownKey) {
		t.Errorf("opened: %v", err)
	}
	// That is not known while the ring can't be read.
	r.rings.err = errors.New("the API server is away")
	if _, err := r.Result(t.Context(), task); !errors.Is(err, r.rings.err) || errors.Is(err, sealed.ErrUnknownKey) {
		t.Errorf("without an API server: %v", err)
	}
	r.rings.err = nil
	r.rings.reload = func() *sealed.KeyRing { return r.ring }
	if got, err := r.Result(t.Context(), task); err != nil || string(got) != exact || r.rings.reloads != 3 {
		t.Errorf("%s, %v, %d reloads", got, err, r.rings.reloads)
	}
}

// Those who want one body at the same time share one look, and one who gives up does
// not fail the others.
func TestOneLookForMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Limits{})
		release, fetches := make(chan struct{}), 0
		fetch := func(ctx context.Context) (json.RawMessage, error) {
			fetches++
			<-release
			return json.RawMessage(exact), ctx.Err()
		}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := r.bodies.get(ctx, bodyKey{"u", "f"}, fetch); !errors.Is(err, context.Canceled) {
				t.Errorf("the one who gave up: %v", err)
			}
		})
		synctest.Wait()
		for range 10 {
			group.Go(func() {
				if body, err := r.bodies.get(t.Context(), bodyKey{"u", "f"}, fetch); err != nil || string(body) != exact {
					t.Errorf("%s, %v", body, err)
				}
			})
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(release)
		group.Wait()
		if fetches != 1 {
			t.Errorf("%d fetches, want 1", fetches)
		}
	})
}

func TestKeptBodiesAreBoundedInBytes(t *testing.T) {
	body := json.RawMessage(strings.Repeat("x", 1000))
	c := newBodyCache(3 * cost(body))
	keys := []bodyKey{{"1", "f"}, {"2", "f"}, {"3", "f"}, {"4", "f"}}
	for _, key := range keys[:3] {
		c.put(key, body)
	}
	c.get(keys[0])
	c.put(keys[3], body)
	c.put(keys[3], body)
	c.put(bodyKey{"5", "f"}, json.RawMessage(strings.Repeat("x", 4000)))
	for i, wantKept := range []bool{true, false, true, true} {
		if _, kept := c.get(keys[i]); kept != wantKept {
			t.Errorf("%v kept: %v", keys[i], kept)
		}
	}
	if c.size != 3*cost(body) || len(c.byKey) != 3 {
		t.Errorf("%d bytes of %d bodies", c.size, len(c.byKey))
	}
}
