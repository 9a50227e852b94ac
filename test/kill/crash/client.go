package crash

import (
	"bytes"
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// Client is a client whose writes of CompileTasks and Payloads end the process at
// the killer's point.
type Client struct {
	kclient.Client

	killer *Killer
}

// WrapClient wraps a client.
func WrapClient(inner kclient.Client, killer *Killer) *Client {
	return &Client{Client: inner, killer: killer}
}

// Create implements client.Client.
func (c *Client) Create(ctx context.Context, object kclient.Object, options ...kclient.CreateOption) error {
	if _, ok := object.(*v1alpha1.Payload); !ok {
		return c.Client.Create(ctx, object, options...)
	}
	c.killer.at(PayloadBefore)
	err := c.Client.Create(ctx, object, options...)
	c.killer.at(PayloadDone)
	return err
}

// Patch implements client.Client. The controller patches finalizers only.
func (c *Client) Patch(ctx context.Context, object kclient.Object, patch kclient.Patch, options ...kclient.PatchOption) error {
	if _, ok := object.(*v1alpha1.CompileTask); !ok {
		return c.Client.Patch(ctx, object, patch, options...)
	}
	before, done := FinalizerOffBefore, FinalizerOffDone
	if data, err := patch.Data(object); err == nil && putsOn(data) {
		before, done = FinalizerOnBefore, FinalizerOnDone
	}
	c.killer.at(before)
	err := c.Client.Patch(ctx, object, patch, options...)
	c.killer.at(done)
	return err
}

// Status implements client.Client.
func (c *Client) Status() kclient.SubResourceWriter {
	return &statusWriter{SubResourceWriter: c.Client.Status(), killer: c.killer}
}

type statusWriter struct {
	kclient.SubResourceWriter

	killer *Killer
}

// Update implements client.SubResourceWriter.
func (w *statusWriter) Update(ctx context.Context, object kclient.Object, options ...kclient.SubResourceUpdateOption) error {
	task, ok := object.(*v1alpha1.CompileTask)
	if !ok {
		return w.SubResourceWriter.Update(ctx, object, options...)
	}
	before, sent, done := pointsOf(task)
	w.killer.at(before)
	err := w.SubResourceWriter.Update(w.killer.sent(ctx, sent), object, options...)
	w.killer.at(done)
	return err
}

// pointsOf tells which kind of write the status is.
func pointsOf(task *v1alpha1.CompileTask) (before, sent, done Point) {
	submitted := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionSubmitted)
	switch {
	case task.Terminal():
		return EndBefore, EndSent, EndDone
	case submitted != nil && submitted.Status == metav1.ConditionUnknown:
		return ClaimBefore, "", ClaimDone
	default:
		return RecordBefore, RecordSent, RecordDone
	}
}

// putsOn tells whether a finalizer patch leaves the controller's finalizer on.
func putsOn(patch []byte) bool {
	return bytes.Contains(patch, []byte(v1alpha1.FinalizerCancelOnDelete))
}
