package facadetasks_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/resttask"
	"github.com/agentruntime/operator/internal/sealed"
	testenv "github.com/agentruntime/operator/test/envtest"
)

var _ = Describe("A large result", func() {
	large := `{"n":12345678901234567890,"text":"` + strings.Repeat("x", 40<<10) + `"}`
	var (
		r         *rig
		namespace string
		serial    int
	)
	BeforeEach(func(ctx SpecContext) {
		r = start()
		namespace = newNamespace(ctx)
	})
	// finished is a task with a Payload, sealed under a ring and changed.
	finished := func(ctx SpecContext, ring *sealed.KeyRing, change func(*v1alpha1.CompileTask, *v1alpha1.Payload)) *v1alpha1.CompileTask {
		GinkgoHelper()
		serial++
		task, err := r.Create(ctx, alice, newTask(namespace, serial))
		Expect(err).NotTo(HaveOccurred())
		box, err := ring.Seal([]byte(large), resttask.ResultBinding(task))
		Expect(err).NotTo(HaveOccurred())
		payload := &v1alpha1.Payload{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: resttask.ResultPayloadName(task)},
			Spec:       v1alpha1.PayloadSpec{Data: &v1alpha1.PayloadData{Sealed: box.Marshal(), Size: int64(len(large))}},
		}
		Expect(controllerutil.SetControllerReference(task, payload, testenv.NewScheme())).To(Succeed())
		if change != nil {
			change(task, payload)
		}
		Expect(k8s.Create(ctx, payload)).To(Succeed())
		return setStatus(ctx, task, func(status *v1alpha1.CompileTaskStatus) { status.ResultPayloadName = payload.Name })
	}

	It("is opened once and kept", func(ctx SpecContext) {
		task := finished(ctx, r.ring, nil)
		before := r.live.reads()
		for range 3 {
			Expect(r.Result(ctx, task)).To(BeEquivalentTo(large))
		}
		Expect(r.live.reads()).To(Equal(before + 1))
	})

	It("fails closed when it is another's, changed or gone", func(ctx SpecContext) {
		changed := finished(ctx, r.ring, func(_ *v1alpha1.CompileTask, payload *v1alpha1.Payload) {
			payload.Spec.Data.Sealed[len(payload.Spec.Data.Sealed)/2] ^= 1
		})
		victim := finished(ctx, r.ring, nil)
		thief := finished(ctx, r.ring, nil)
		thief.Status.ResultPayloadName = victim.Status.ResultPayloadName
		orphan := finished(ctx, r.ring, func(_ *v1alpha1.CompileTask, payload *v1alpha1.Payload) { payload.OwnerReferences = nil })
		gone := finished(ctx, r.ring, nil)
		Expect(k8s.Delete(ctx, &v1alpha1.Payload{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: gone.Status.ResultPayloadName}})).To(Succeed())
		for _, task := range []*v1alpha1.CompileTask{changed, thief, orphan, gone} {
			result, err := r.Result(ctx, task)
			Expect(err).To(MatchError(sealed.ErrUnreadable))
			Expect(result).To(BeNil())
		}
		Expect(r.Result(ctx, victim)).To(BeEquivalentTo(large))
	})

	It("opens after its key came into the ring", func(ctx SpecContext) {
		data := sealed.GenerateKeyRingData()
		old, err := sealed.ParseKeyRing(data)
		Expect(err).NotTo(HaveOccurred())
		data, err = sealed.RotateKeyRingData(data)
		Expect(err).NotTo(HaveOccurred())
		rotated, err := sealed.ParseKeyRing(data)
		Expect(err).NotTo(HaveOccurred())
		r.ring, r.current = old, old
		before, after := finished(ctx, old, nil), finished(ctx, rotated, nil)
		Expect(r.Result(ctx, before)).To(BeEquivalentTo(large))

		_, err = r.Result(ctx, after)
		Expect(err).To(MatchError(sealed.ErrUnknownKey), "the ring has not changed yet")
		r.mu.Lock()
		r.current = rotated
		r.mu.Unlock()
		Expect(r.Result(ctx, after)).To(BeEquivalentTo(large))
		Expect(r.Result(ctx, before)).To(BeEquivalentTo(large))
	})
})
