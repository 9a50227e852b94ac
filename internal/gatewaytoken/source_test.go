package gatewaytoken

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// secrets answers each question for a Secret by its function.
type secrets struct {
	client.Reader
	reads  int
	answer func(ctx context.Context) (string, error)
}

func (s *secrets) Get(ctx context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.reads++
	value, err := s.answer(ctx)
	if err != nil {
		return err
	}
	secret, ok := into.(*corev1.Secret)
	if !ok {
		return errors.New("asked for something else")
	}
	secret.Type = v1alpha1.SecretTypeGatewayToken
	secret.Data = map[string][]byte{"token": []byte(value)}
	return nil
}

func says(value string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return value, nil }
}

func newSource(s *secrets) *Source {
	return New(Config{Secrets: s, Namespace: "operator", Ref: v1alpha1.SecretKeyReference{Name: "gateway"}})
}

func want(t *testing.T, s *Source, token string) {
	t.Helper()
	if got, err := s.Get(t.Context()); err != nil || got != token {
		t.Fatalf("Get = %q, %v, want %q", got, err, token)
	}
}

func TestALateRefusalOfAnOlderTokenChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := &secrets{answer: says("two")}
		source := newSource(reader)
		want(t, source, "two")
		source.Refuse("one")
		time.Sleep(TTL - time.Millisecond)
		want(t, source, "two")
		if reader.reads != 1 {
			t.Fatalf("%d reads of the Secret, want 1", reader.reads)
		}
	})
}

func TestOneReadServesAllWhoWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := &secrets{answer: func(context.Context) (string, error) {
			time.Sleep(time.Second)
			return "one", nil
		}}
		source := newSource(reader)
		for range 8 {
			go func() {
				if got, err := source.Get(t.Context()); err != nil || got != "one" {
					t.Errorf("Get = %q, %v", got, err)
				}
			}()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if reader.reads != 1 {
			t.Fatalf("%d reads of the Secret, want 1", reader.reads)
		}
	})
}

func TestNobodyWaitsLongerThanTheyMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := &secrets{answer: func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}}
		source := newSource(reader)
		slow, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		go func() { _, _ = source.Get(slow) }()
		synctest.Wait()
		hasty, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		_, err := source.Get(hasty)
		if !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Get = %v, want %v over an ended context", err, ErrUnavailable)
		}
		if waited := time.Since(begin); waited != time.Second {
			t.Errorf("it took %s, want 1s", waited)
		}
		stop()
	})
}
