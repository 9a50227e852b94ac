package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/resttask"
	testenv "github.com/agentruntime/operator/test/envtest"
)

const (
	maxPostRatio = 1.5
	postWarmUp   = 50
)

// post creates tasks through the facade, by turns with the same objects created by
// client-go, one at a time.
func (b *bench) post(ctx context.Context) ([]result, error) {
	ctx, cancel := context.WithTimeout(ctx, rowTimeout)
	defer cancel()
	example, err := b.example(ctx)
	if err != nil {
		return nil, err
	}
	var facade, raw []time.Duration
	for i := range postWarmUp + b.pairs {
		began := time.Now()
		if _, err := b.callers[i%len(b.callers)].create(ctx); err != nil {
			return nil, err
		}
		between := time.Now()
		if err := b.raw.create(ctx, example); err != nil {
			return nil, err
		}
		if i >= postWarmUp {
			facade, raw = append(facade, between.Sub(began)), append(raw, time.Since(between))
		}
	}
	ratio := percentile(facade, .5).Seconds() / percentile(raw, .5).Seconds()
	return []result{{
		what: "facade POST p50, of a raw client-go create of the same", budget: fmt.Sprintf("<= %.1f x", maxPostRatio),
		measured: fmt.Sprintf("%.2f x (%s of %s)", ratio, ms(percentile(facade, .5)), ms(percentile(raw, .5))), ok: ratio <= maxPostRatio,
		note: fmt.Sprintf("%d of each in turns, one at a time, same admission; p99 %s, raw %s; the facade's include the impersonation's own checks in the API server",
			b.pairs, ms(percentile(facade, .99)), ms(percentile(raw, .99))),
	}}, nil
}

// example is a task as the facade has created it.
func (b *bench) example(ctx context.Context) (*v1alpha1.CompileTask, error) {
	id, err := b.callers[0].create(ctx)
	if err != nil {
		return nil, err
	}
	task := &v1alpha1.CompileTask{}
	if err := b.stack.Client.Get(ctx, nameOf(id), task); err != nil {
		return nil, fmt.Errorf("get task %s: %w", id, err)
	}
	return task, nil
}

// rawClient creates what the facade would, as a user of the API server.
type rawClient struct {
	bench    *bench
	username string
	client   client.Client
	serial   int
}

func (b *bench) newRawClient(ctx context.Context, as *caller) (*rawClient, error) {
	user, err := b.stack.AddUser(ctx, as.name)
	if err != nil {
		return nil, err
	}
	c, err := client.New(user.Config, client.Options{Scheme: testenv.NewScheme()})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &rawClient{bench: b, username: as.name, client: c}, nil
}

// create creates a task like the example, under a name and with a mark of its own.
// Making the mark is the facade's work, but without it there is no admission.
func (r *rawClient) create(ctx context.Context, example *v1alpha1.CompileTask) error {
	r.serial++
	name := resttask.RandomName()
	task := &v1alpha1.CompileTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name, Annotations: example.Annotations},
		Spec:       *example.Spec.DeepCopy(),
	}
	task.Spec.Requester = v1alpha1.Requester{}
	task.Spec.To = fmt.Sprintf("viking://resources/raw/wiki-%d", r.serial)
	task.Spec.RESTRequest.Mark = resttask.Mark(r.bench.ring, resttask.OriginOf(task), r.username)
	if err := r.client.Create(ctx, task); err != nil {
		return fmt.Errorf("create task %s: %w", name, err)
	}
	return nil
}
