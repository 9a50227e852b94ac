package agentruntime_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/test/fakeruntime"
)

var _ = Describe("The default mark", Serial, func() {
	marked := func(r *v1alpha1.AgentRuntime) {
		r.Annotations = map[string]string{v1alpha1.AnnotationDefaultRuntime: "true"}
	}
	// warnings are the reasons of warning events about a runtime.
	warnings := func(runtime *v1alpha1.AgentRuntime) func() []string {
		return func() []string {
			var all eventsv1.EventList
			Expect(k8s.List(context.Background(), &all)).To(Succeed())
			var reasons []string
			for _, event := range all.Items {
				if event.Regarding.Name == runtime.Name && event.Type == "Warning" {
					reasons = append(reasons, event.Reason)
				}
			}
			return reasons
		}
	}

	It("counts for the newest, with a warning, and falls back when that loses it", func() {
		fake := startFake(fakeruntime.Options{})
		older := given(fake.URL, marked)
		Eventually(condition(older, v1alpha1.ConditionDefault)).Should(Equal("True/NewestMarked"))
		// Times of creation are whole seconds.
		Eventually(func() bool { return time.Now().Unix() > older.CreationTimestamp.Unix() }).Should(BeTrue())
		newer := given(fake.URL, marked)
		Eventually(condition(newer, v1alpha1.ConditionDefault)).Should(Equal("True/NewestMarked"))
		Eventually(condition(older, v1alpha1.ConditionDefault)).Should(Equal("False/Superseded"))
		Expect(messageOf(older, v1alpha1.ConditionDefault)).To(ContainSubstring(newer.Name))
		Eventually(warnings(older)).Should(ContainElement(v1alpha1.ReasonSuperseded))

		patch(newer, `{"metadata":{"annotations":{"`+v1alpha1.AnnotationDefaultRuntime+`":null}}}`)
		Eventually(condition(older, v1alpha1.ConditionDefault)).Should(Equal("True/NewestMarked"))
		Eventually(condition(newer, v1alpha1.ConditionDefault)).Should(BeEmpty())

		patch(newer, `{"metadata":{"annotations":{"`+v1alpha1.AnnotationDefaultRuntime+`":"true"}}}`)
		Eventually(condition(older, v1alpha1.ConditionDefault)).Should(Equal("False/Superseded"))
		Expect(k8s.Delete(context.Background(), newer)).To(Succeed())
		Eventually(condition(older, v1alpha1.ConditionDefault)).Should(Equal("True/NewestMarked"))
	})

	It("counts only with the value true", func() {
		runtime := given(startFake(fakeruntime.Options{}).URL, func(r *v1alpha1.AgentRuntime) {
			r.Annotations = map[string]string{v1alpha1.AnnotationDefaultRuntime: "yes"}
		})
		Eventually(condition(runtime, v1alpha1.ConditionReady)).Should(Equal("True/ProbeSucceeded"))
		Expect(condition(runtime, v1alpha1.ConditionDefault)()).To(BeEmpty())
	})
})
