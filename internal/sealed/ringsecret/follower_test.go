package ringsecret_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/internal/sealed"
	"github.com/agentruntime/operator/internal/sealed/ringsecret"
)

// secrets is a reader of one Secret, which is missing while it is nil.
type secrets struct {
	client.Reader
	secret atomic.Pointer[corev1.Secret]
	reads  atomic.Int32
	// takes is how long a read takes.
	takes atomic.Int64
}

// Get implements client.Reader.
func (s *secrets) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	s.reads.Add(1)
	time.Sleep(time.Duration(s.takes.Load()))
	secret := s.secret.Load()
	into, ok := object.(*corev1.Secret)
	if secret == nil || !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
	}
	secret.DeepCopyInto(into)
	return nil
}

func (s *secrets) set(data map[string][]byte) {
	s.secret.Store(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "operator", Name: ringsecret.Name}, Type: ringsecret.Type, Data: data,
	})
}

func TestFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := &secrets{}
		follower := ringsecret.NewFollower(reader, "operator", clock.RealClock{})
		if follower.Ready() == nil {
			t.Error("ready before it has read anything")
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- follower.Run(ctx) }()
		synctest.Wait()
		if follower.Ready() == nil {
			t.Error("ready without a ring")
		}
		data := sealed.GenerateKeyRingData()
		reader.set(data)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		first := ringOf(t, follower)

		rotated, err := sealed.RotateKeyRingData(data)
		if err != nil {
			t.Fatal(err)
		}
		reader.set(rotated)
		time.Sleep(6 * time.Second)
		before := reader.reads.Load()
		reader.takes.Store(int64(time.Second))
		var reloads sync.WaitGroup
		for range 10 {
			reloads.Go(func() {
				if got, err := follower.Reload(ctx); err != nil || got.PrimaryID() == first.PrimaryID() {
					t.Errorf("Reload = %v, %v, want the new ring", got, err)
				}
			})
		}
		reloads.Wait()
		if got := reader.reads.Load() - before; got != 1 {
			t.Errorf("ten reloads at once read %d times, want once", got)
		}
		reader.secret.Store(nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		ringOf(t, follower)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

func ringOf(t *testing.T, follower *ringsecret.Follower) *sealed.KeyRing {
	t.Helper()
	ring, err := follower.Ring(t.Context())
	if err != nil {
		t.Fatalf("Ring: %v", err)
	}
	return ring
}
