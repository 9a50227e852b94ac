package facade_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const randomID = "cmp_0123456789abcdef0123456789abcdef"

// expectation is what one person gets at one operation, as statuses by door.
type expectation struct {
	get, cancel, events int
	// list says whether their list holds the task; listAll that of ?scope=namespace,
	// with 0 for a refusal.
	inList    bool
	listAll   int
	inListAll bool
}

// Rights that are not shipped as a role: a reader of the resources without the
// virtual subresources.
const bareViewer = "matrix-bare-viewer"

var _ = Describe("Who sees and does what", Ordered, func() {
	var owner, other, holder, viewer *person

	BeforeAll(func(ctx SpecContext) {
		Expect(plane.Client.Create(ctx, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: bareViewer},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{"agentruntime.dev"}, Resources: []string{"compiletasks"}, Verbs: []string{"get", "list", "watch"}},
				{APIGroups: []string{"compile.agentruntime.dev"}, Resources: []string{"tasks", "tasks/log"}, Verbs: []string{"get", "list"}},
				{APIGroups: []string{"compile.agentruntime.dev"}, Resources: []string{"tasks/cancel"}, Verbs: []string{"create"}},
			},
		})).To(Succeed())
		owner = newPerson(ctx, "owner", "agentruntime-user", "agentruntime-runtime-user")
		other = newPerson(ctx, "other", "agentruntime-user", "agentruntime-runtime-user")
		holder = newPerson(ctx, "holder", "agentruntime-user", "agentruntime-viewer")
		viewer = newPerson(ctx, "viewer", bareViewer)
	})

	for _, door := range doors {
		Context("through the door "+door.name, func() {
			DescribeTable("a task that runs", func(ctx SpecContext, who func() *person, want expectation) {
				p := who()
				id := createSlow(ctx, door, owner)
				checkAccess(ctx, door, p, id, want)
			},
				Entry("is its owner's", func() *person { return owner },
					expectation{get: 200, cancel: 200, events: 200, inList: true, listAll: 403}),
				Entry("is not there for others", func() *person { return other },
					expectation{get: 404, cancel: 404, events: 404, listAll: 403}),
				Entry("shows to a holder of any, who may not cancel it", func() *person { return holder },
					expectation{get: 200, cancel: 403, events: 200, listAll: 200, inListAll: true}),
				Entry("is not there for a viewer without any", func() *person { return viewer },
					expectation{get: 404, cancel: 404, events: 404, listAll: 403}),
			)

			It("tells a foreign task from a random id by nothing", func(ctx SpecContext) {
				id := createSlow(ctx, door, owner)
				for _, p := range []*person{other, viewer} {
					for _, call := range []struct{ method, suffix string }{{"GET", ""}, {"POST", "/cancel"}, {"GET", "/events"}} {
						foreign := door.as(ctx, p, call.method, "/api/v1/tasks/"+id+call.suffix, "")
						missing := door.as(ctx, p, call.method, "/api/v1/tasks/"+randomID+call.suffix, "")
						what := fmt.Sprintf("%s %s as %s", call.method, call.suffix, p.name)
						Expect(foreign.status).To(Equal(missing.status), what)
						Expect(strings.ReplaceAll(foreign.text(), id, randomID)).To(Equal(missing.text()), what)
						Expect(lasting(foreign.header)).To(Equal(lasting(missing.header)), what)
					}
				}
			})

			It("ends a stream and hides the task within 20 s of the role's end", func(ctx SpecContext) {
				leaver := newPerson(ctx, "leaver-"+strings.ReplaceAll(strings.ToLower(door.name), " ", "-"), "agentruntime-user", "agentruntime-runtime-user")
				id := createSlow(ctx, door, leaver)
				stream := openStream(ctx, door, leaver, id)
				Expect(stream.next(ctx)).To(Equal("task"))
				for _, role := range []string{"agentruntime-user", "agentruntime-runtime-user"} {
					Expect(plane.Client.Delete(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: leaver.name + "-" + role}})).To(Succeed())
				}
				began := time.Now()
				Eventually(stream.ended).WithTimeout(revocation).Should(BeClosed())
				Eventually(func(g Gomega) {
					for _, call := range []struct{ method, suffix string }{{"GET", ""}, {"POST", "/cancel"}, {"GET", "/events"}} {
						mine := door.as(ctx, leaver, call.method, "/api/v1/tasks/"+id+call.suffix, "")
						random := door.as(ctx, leaver, call.method, "/api/v1/tasks/"+randomID+call.suffix, "")
						g.Expect(mine.status).To(BeElementOf(403, 404), mine.text())
						g.Expect(mine.status).To(Equal(random.status))
						g.Expect(strings.ReplaceAll(mine.text(), id, randomID)).To(Equal(random.text()))
					}
					g.Expect(door.as(ctx, leaver, "GET", "/api/v1/tasks", "").status).To(Equal(403))
				}).WithTimeout(revocation - time.Since(began)).Should(Succeed())
			})
		})
	}
})

// createSlow creates a task that runs until it is cancelled.
func createSlow(ctx context.Context, d *door, p *person) string {
	GinkgoHelper()
	to := slowTarget + strconv.FormatInt(time.Now().UnixNano(), 10)
	created := d.as(ctx, p, "POST", "/api/v1/compile", request(to))
	Expect(created.status).To(Equal(http.StatusAccepted), created.text())
	id, ok := created.record()["task_id"].(string)
	Expect(ok).To(BeTrue(), created.text())
	return id
}

func request(to string) string {
	return `{"from":["viking://resources/docs"],"to":"` + to + `","skill":"viking://agent/skills/wiki"}`
}

func checkAccess(ctx context.Context, d *door, p *person, id string, want expectation) {
	GinkgoHelper()
	got := d.as(ctx, p, "GET", "/api/v1/tasks/"+id, "")
	Expect(got.status).To(Equal(want.get), got.text())
	if want.get == http.StatusOK {
		Expect(got.record()).To(HaveKeyWithValue("task_id", id))
	}
	Expect(listed(d.as(ctx, p, "GET", "/api/v1/tasks?limit=200", ""), id)).To(Equal(want.inList), "the list")
	all := d.as(ctx, p, "GET", "/api/v1/tasks?limit=200&scope=namespace", "")
	Expect(all.status).To(Equal(want.listAll), all.text())
	Expect(listed(all, id)).To(Equal(want.inListAll), "the namespace's list")
	stream := openStream(ctx, d, p, id)
	Expect(stream.status).To(Equal(want.events))
	stream.close()
	cancelled := d.as(ctx, p, "POST", "/api/v1/tasks/"+id+"/cancel", "")
	Expect(cancelled.status).To(Equal(want.cancel), cancelled.text())
	if want.cancel == http.StatusOK {
		Expect(cancelled.record()["status"]).To(BeElementOf("cancelling", "cancelled"))
	}
}

// listed tells whether a list holds a task; an answer that is no list holds none.
func listed(a *answer, id string) bool {
	GinkgoHelper()
	if a.status != http.StatusOK {
		return false
	}
	var records []map[string]any
	a.result(&records)
	for _, record := range records {
		if record["task_id"] == id {
			return true
		}
	}
	return false
}

// lasting drops the headers that differ from one answer to the next.
func lasting(header http.Header) http.Header {
	kept := header.Clone()
	for _, name := range []string{"X-Request-Id", "Date", "Audit-Id", "Traceparent", "Content-Length", "X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid"} {
		kept.Del(name)
	}
	return kept
}

// stream is an open stream of events.
type stream struct {
	status int
	events chan string
	ended  chan struct{}
	close  context.CancelFunc
}

// openStream opens a task's events and reads them until the stream ends.
func openStream(ctx context.Context, d *door, p *person, id string) *stream {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(ctx)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.base+d.path("/api/v1/tasks/"+id+"/events"), http.NoBody)
	Expect(err).NotTo(HaveOccurred())
	d.show(request, p)
	response, err := d.client().Do(request) //nolint:bodyclose // It is closed by the goroutine that reads it.
	Expect(err).NotTo(HaveOccurred())
	s := &stream{status: response.StatusCode, events: make(chan string, 100), ended: make(chan struct{}), close: cancel}
	DeferCleanup(func() { cancel(); <-s.ended })
	go func() {
		defer close(s.ended)
		defer response.Body.Close()
		scanner := bufio.NewScanner(response.Body)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			if name, ok := strings.CutPrefix(scanner.Text(), "event: "); ok {
				s.events <- name
			}
		}
	}()
	return s
}

// next waits for the next event and returns its name.
func (s *stream) next(ctx context.Context) string {
	GinkgoHelper()
	select {
	case name := <-s.events:
		return name
	case <-time.After(10 * time.Second):
		Fail("no event in 10 s")
	case <-ctx.Done():
		Fail("no event before the spec's end")
	}
	return ""
}
