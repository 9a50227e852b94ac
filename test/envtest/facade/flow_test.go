package facade_test

import (
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/test/fakeruntime"
)

// createOf is the create call that the executor got for a task, and its headers.
func createOf(id string) *fakeruntime.Call {
	for _, call := range executor.Calls(fakeruntime.OpCreate) {
		if call.Header.Get(runtimeapi.HeaderIdempotencyKey) == id {
			return &call
		}
	}
	return nil
}

var _ = Describe("A task's way", Ordered, func() {
	var author *person

	BeforeAll(func(ctx SpecContext) {
		author = newPerson(ctx, "traveller", "agentruntime-user", "agentruntime-runtime-user")
	})

	It("carries the request id, the trace and every digit to the executor", func(ctx SpecContext) {
		const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		const args = `{"n":12345678901234567890,"e":1e2,"f":1.0,"deep":{"user_key":"hush-hush-key"}}`
		body := strings.TrimSuffix(request("viking://resources/digits"), "}") + `,"args":` + args + `}`
		created := direct.as(ctx, author, "POST", "/api/v1/compile", body, "X-Request-ID", "way-1", "traceparent", trace)
		Expect(created.status).To(Equal(http.StatusAccepted), created.text())
		Expect(created.header.Get("X-Request-ID")).To(Equal("way-1"))
		id, _ := created.record()["task_id"].(string)
		Eventually(func() any { return createOf(id) }).ShouldNot(BeNil())
		call := createOf(id)
		Expect(call.Header.Get("X-Tt-Logid")).To(Equal("way-1"))
		Expect(call.Header.Get("traceparent")).To(HavePrefix("00-0af7651916cd43dd8448eb211c80319c-"))
		Expect(string(call.Body)).To(ContainSubstring(`"args":` + args))
		ended := direct.as(ctx, author, "GET", "/api/v1/tasks/"+id+"?wait=20s", "")
		for _, member := range []string{`"n":12345678901234567890`, `"e":1e2`, `"f":1.0`, `"deep":{}`} {
			Expect(ended.text()).To(ContainSubstring(member))
		}
		Expect(ended.text()).NotTo(ContainSubstring("hush-hush-key"))
	})

	It("is one task for one Idempotency-Key, and a conflict for another body", func(ctx SpecContext) {
		const key = "an-idempotency-key-1"
		first := direct.as(ctx, author, "POST", "/api/v1/compile", request("viking://resources/once"), "Idempotency-Key", key)
		Expect(first.status).To(Equal(http.StatusAccepted), first.text())
		for _, door := range doors {
			again := door.as(ctx, author, "POST", "/api/v1/compile", request("viking://resources/once"), "Idempotency-Key", key)
			Expect(again.status).To(Equal(http.StatusAccepted), again.text())
			Expect(again.record()["task_id"]).To(Equal(first.record()["task_id"]), door.name)
			found := door.as(ctx, author, "GET", "/api/v1/compile/submissions/"+key, "")
			Expect(found.record()["task_id"]).To(Equal(first.record()["task_id"]), door.name)
		}
		other := direct.as(ctx, author, "POST", "/api/v1/compile", request("viking://resources/twice"), "Idempotency-Key", key)
		Expect(other.status).To(Equal(http.StatusConflict), other.text())
		Expect(other.failure().Code).To(Equal("CONFLICT"))
	})

	It("wakes a wait at its change, and tells a stream of its end", func(ctx SpecContext) {
		id := createSlow(ctx, direct, author)
		Eventually(func() any { return direct.as(ctx, author, "GET", "/api/v1/tasks/"+id, "").record()["stage"] }).Should(Equal("compile: agent"))
		open := openStream(ctx, direct, author, id)
		Expect(open.next(ctx)).To(Equal("task"))
		woken := make(chan *answer, 1)
		go func() {
			defer GinkgoRecover()
			woken <- direct.as(ctx, author, "GET", "/api/v1/tasks/"+id+"?wait=50s", "")
		}()
		began := time.Now()
		Expect(executor.Advance(id)).To(Succeed())
		got := <-woken
		Expect(got.status).To(Equal(http.StatusOK), got.text())
		Expect(got.record()["status"]).To(Equal("completed"))
		Expect(time.Since(began)).To(BeNumerically("<", 40*time.Second), "the wait did not run out")
		Expect(open.next(ctx)).To(Equal("task"))
		Expect(open.next(ctx)).To(Equal("end"))
		Eventually(open.ended).Should(BeClosed())
		late := direct.as(ctx, author, "POST", "/api/v1/tasks/"+id+"/cancel", "")
		Expect(late.status).To(Equal(http.StatusPreconditionFailed), late.text())
		Expect(late.failure().Message).To(Equal("Task is already completed"))
	})

	It("goes on through another facade after a restart, without loss of its end", func(ctx SpecContext) {
		id := createSlow(ctx, direct, author)
		open := openStream(ctx, direct, author, id)
		Expect(open.next(ctx)).To(Equal("task"))
		Expect(plane.StopProcess("facade")).To(Succeed())
		Eventually(open.ended).Should(BeClosed())
		Expect(executor.Advance(id)).To(Succeed())
		Expect(plane.StartFacade(ctx)).To(Succeed())
		waitForAggregation(ctx)
		again := openStream(ctx, direct, author, id)
		Expect(again.status).To(Equal(http.StatusOK))
		Expect(again.next(ctx)).To(Equal("task"))
		Eventually(again.next).WithArguments(ctx).Should(Equal("end"))
	})
})
