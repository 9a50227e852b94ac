package facadetasks_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/facade/tasks"
)

var _ = Describe("The store", func() {
	var r *rig
	var namespace string
	BeforeEach(func(ctx SpecContext) {
		r = start()
		namespace = newNamespace(ctx)
	})
	stall := func() (release func()) {
		r.lag.held.Lock()
		release = sync.OnceFunc(r.lag.held.Unlock)
		DeferCleanup(release)
		return release
	}

	It("shows a client their own writes while the informer lags", func(ctx SpecContext) {
		release := stall()
		created, err := r.Create(ctx, alice, newTask(namespace, 1))
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Find(ctx, namespace, created.TaskID(), of("alice"))).To(HaveField("UID", created.UID))
		listed, more, err := r.List(ctx, tasks.Query{Namespace: namespace, Requester: "alice", Limit: 5})
		Expect(err).NotTo(HaveOccurred())
		Expect(more).To(BeFalse())
		Expect(listed).To(ConsistOf(HaveField("UID", created.UID)))

		cancelled, err := r.Cancel(ctx, alice, created)
		Expect(err).NotTo(HaveOccurred())
		Expect(cancelled.Annotations).To(HaveKey(v1alpha1.AnnotationCancelRequestedAt))
		Expect(r.Find(ctx, namespace, created.TaskID(), of("alice"))).To(HaveField("Spec.Cancel", true))
		Expect(r.ByName(ctx, namespace, created.Name)).To(HaveField("Spec.Cancel", true))

		release()
		Eventually(func(g Gomega) {
			before := r.live.reads()
			g.Expect(r.Find(ctx, namespace, created.TaskID(), of("alice"))).To(HaveField("Spec.Cancel", true))
			g.Expect(r.live.reads()).To(Equal(before), "a cached read makes no call")
		}).Should(Succeed())
	})

	It("tells a foreign task from none in nothing", func(ctx SpecContext) {
		foreign, missing := newTask(namespace, 1), newTask(namespace, 2)
		_, err := r.Create(ctx, alice, foreign)
		Expect(err).NotTo(HaveOccurred())
		for _, task := range []*v1alpha1.CompileTask{foreign, missing} {
			before := r.live.reads()
			_, err := r.Find(ctx, namespace, task.TaskID(), of("bob"))
			Expect(err).To(MatchError(fmt.Sprintf("compiletasks.agentruntime.dev %q not found", task.TaskID())))
			Expect(apierrors.IsNotFound(err)).To(BeTrue())
			Expect(r.live.reads()).To(Equal(before + 1))
		}
	})

	It("passes on what the API server says to the user", func(ctx SpecContext) {
		created, err := r.Create(ctx, alice, newTask(namespace, 1))
		Expect(err).NotTo(HaveOccurred())
		_, err = r.Create(ctx, bob, newTask(namespace, 2))
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring(`User "bob" cannot create`)))
		_, err = r.Cancel(ctx, bob, created)
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		invalid := newTask(namespace, 3)
		invalid.Spec.From = nil
		_, err = r.Create(ctx, alice, invalid)
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)

		// A later task of the name is not the one that was meant.
		Expect(k8s.Delete(ctx, created)).To(Succeed())
		next := newTask(namespace, 4)
		next.Name = created.Name
		Expect(k8s.Create(ctx, next)).To(Succeed())
		_, err = r.Cancel(ctx, alice, created)
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	})

	It("creates a task once, whoever asks at the same time", func(ctx SpecContext) {
		other := start()
		task := newTask(namespace, 1)
		var mu sync.Mutex
		uids, taken := map[string]int{}, 0
		workqueue.ParallelizeUntil(ctx, 16, 32, func(i int) {
			defer GinkgoRecover()
			store := []*rig{r, other}[i%2]
			created, err := store.Create(ctx, alice, task)
			if apierrors.IsAlreadyExists(err) {
				mu.Lock()
				taken++
				mu.Unlock()
				created, err = store.ByName(ctx, namespace, task.Name)
				Expect(err).NotTo(HaveOccurred())
			}
			Expect(err).NotTo(HaveOccurred())
			mu.Lock()
			uids[string(created.UID)]++
			mu.Unlock()
		})
		Expect(taken).To(Equal(31))
		Expect(uids).To(HaveLen(1))
	})

	It("lists hundreds of tasks newest first, in pages", func(ctx SpecContext) {
		const count = 300
		want := make([]string, count)
		workqueue.ParallelizeUntil(ctx, 8, count, func(i int) {
			defer GinkgoRecover()
			created, err := r.Create(ctx, alice, newTask(namespace, i))
			Expect(err).NotTo(HaveOccurred())
			want[count-1-i] = created.TaskID()
		})
		pages := func() []string {
			var got []string
			query := tasks.Query{Namespace: namespace, Requester: "alice", Limit: 50}
			for more := true; more; {
				var page []*v1alpha1.CompileTask
				var err error
				page, more, err = r.List(ctx, query)
				Expect(err).NotTo(HaveOccurred())
				Expect(page).NotTo(BeEmpty())
				for _, task := range page {
					got = append(got, task.TaskID())
				}
				last := page[len(page)-1]
				query.After = &tasks.Place{Created: tasks.CreatedAt(last), ID: last.TaskID()}
			}
			return got
		}
		Expect(pages()).To(Equal(want), "whatever the informer has by now")
		late := start()
		r = late
		Expect(pages()).To(Equal(want), "from the informer alone")
		Expect(late.live.reads()).To(BeZero())
	})

	It("tells every watcher how their task ends", func(ctx SpecContext) {
		const count, readers = 50, 100
		ended := metav1.Condition{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCompleted, LastTransitionTime: metav1.Now()}
		all := make([]*v1alpha1.CompileTask, count)
		var changes []<-chan *v1alpha1.CompileTask
		for i := range all {
			created, err := r.Create(ctx, alice, newTask(namespace, i))
			Expect(err).NotTo(HaveOccurred())
			all[i] = created
			for range readers {
				watched, err := r.Watch(ctx, created)
				Expect(err).NotTo(HaveOccurred())
				changes = append(changes, watched)
			}
		}
		Expect(changes).To(HaveLen(5000))
		workqueue.ParallelizeUntil(ctx, 8, count, func(i int) {
			defer GinkgoRecover()
			for _, stage := range []string{"one", "two", "three"} {
				setStatus(ctx, all[i], func(status *v1alpha1.CompileTaskStatus) { status.Stage = stage })
			}
			setStatus(ctx, all[i], func(status *v1alpha1.CompileTaskStatus) { status.Conditions = []metav1.Condition{ended} })
		})
		deadline, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		for i, watched := range changes {
			for done := false; !done; {
				select {
				case state := <-watched:
					Expect(state.UID).To(Equal(all[i/readers].UID))
					done = state.Terminal()
				case <-deadline.Done():
					Fail("a watcher was not told")
				}
			}
		}
		Expect(k8s.Delete(ctx, all[0])).To(Succeed())
		for _, watched := range changes[:readers] {
			Eventually(watched).Should(BeClosed())
		}
		again, err := r.Watch(ctx, all[0])
		Expect(err).NotTo(HaveOccurred())
		Expect(again).To(BeClosed())
	})
})
