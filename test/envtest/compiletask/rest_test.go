package compiletask_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/controllers/compiletask"
	"github.com/agentruntime/operator/internal/resttask"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/internal/sealed"
	"github.com/agentruntime/operator/test/fakeruntime"
)

// fromREST makes a task one of the REST API's.
func fromREST(task *v1alpha1.CompileTask) {
	task.Name = resttask.RandomName()
	received := metav1.NewMicroTime(time.Now())
	task.Spec.RESTRequest = &v1alpha1.RESTRequest{ReceivedTime: &received}
	task.Spec.RESTRequest.Mark = resttask.Mark(keyRing, resttask.OriginOf(task), task.Spec.Requester.Username)
}

// withSealed seals credentials into a task of the REST API.
func withSealed(c resttask.Credentials) func(*v1alpha1.CompileTask) {
	return func(task *v1alpha1.CompileTask) {
		body, err := resttask.SealCredentials(keyRing, resttask.OriginOf(task), c)
		Expect(err).NotTo(HaveOccurred())
		task.Spec.SealedCredentials = body
	}
}

func withSealedArgs(args string) func(*v1alpha1.CompileTask) {
	return func(task *v1alpha1.CompileTask) {
		body, err := resttask.SealArgs(keyRing, resttask.OriginOf(task), json.RawMessage(args))
		Expect(err).NotTo(HaveOccurred())
		task.Spec.SealedArgs = body
	}
}

// argsSent are the args of a recorded create, in their exact text.
func argsSent(call fakeruntime.Call) string {
	GinkgoHelper()
	var request runtimeapi.CreateRequest
	Expect(json.Unmarshal(call.Body, &request)).To(Succeed())
	return string(request.Payload.Args)
}

// erased waits until the task has ended and its credentials are gone.
func erased(task *v1alpha1.CompileTask) *v1alpha1.CompileTask {
	GinkgoHelper()
	end(task)
	Eventually(func() *v1alpha1.SealedBody { return current(task)().Spec.SealedCredentials }).Should(BeNil())
	return current(task)()
}

const exactArgs = `{"a":12345678901234567890,"b":1e2,"c":1.0,"d":"<&>"}`

var _ = Describe("A CompileTask of the REST API", Ordered, func() {
	var (
		namespace string
		fake      *fakeruntime.Server
		seen      *writes
	)
	BeforeAll(func() {
		startManager()
	})
	BeforeEach(func() {
		namespace = newNamespace()
		seen = watchWrites(namespace)
		fake = startFake(fakeruntime.Options{Durable: true, UserOf: oneUser})
	})
	quiet := func(task *v1alpha1.CompileTask, tasks int) {
		GinkgoHelper()
		Eventually(seen.of(task)).Should(Equal(tasks), func() string { return seen.describe(task) })
		Consistently(seen.of(task), "200ms").Should(Equal(tasks))
	}
	// knownRuntime is one that the manager has seen.
	knownRuntime := func(change ...func(*v1alpha1.AgentRuntimeSpec)) string {
		GinkgoHelper()
		art := newRuntime(fake.URL, change...)
		first := newTask(namespace, art.Name, fromREST)
		withSealed(resttask.Credentials{APIKey: secretValue()})(first)
		erased(create(first))
		return art.Name
	}

	It("costs two writes when nothing in it is secret, and sends its sealed args as they are", func() {
		art := knownRuntime()
		task := create(newTask(namespace, art, fromREST, withSealedArgs(exactArgs)))
		Expect(endReason(end(task))).To(Equal("Complete/Completed"))
		quiet(task, 2)
		for _, call := range fake.Calls(fakeruntime.OpCreate) {
			if keyOfCall(call) == task.TaskID() {
				Expect(argsSent(call)).To(Equal(exactArgs))
			}
		}
		Expect(current(task)().Spec.SealedArgs).NotTo(BeNil(), "they stay readable")
		requireOneExecution(fake, task)
	})

	It("sends args with secrets instead of the public ones, and one more write erases them", func() {
		art := knownRuntime()
		secret := secretValue()
		args := fmt.Sprintf(`{"a":12345678901234567890,"deep":[{"API_Key":%q}]}`, secret)
		task := create(newTask(namespace, art, fromREST, withSealedArgs(`{"a":12345678901234567890}`), withSealed(resttask.Credentials{Args: json.RawMessage(args)})))
		now := erased(task)
		Expect(endReason(now)).To(Equal("Complete/Completed"))
		quiet(task, 3)
		calls := fake.Calls(fakeruntime.OpCreate)
		Expect(argsSent(calls[len(calls)-1])).To(Equal(args))
		Expect(now.Spec.SealedArgs).NotTo(BeNil())
	})

	It("shows none of its secrets, wherever the executor puts them", func() {
		art := knownRuntime()
		secret, nested, key := secretValue(), secretValue(), secretValue()
		args := json.RawMessage(fmt.Sprintf(`{"api_key":%q,"x":{"user_key":[%q]}}`, secret, nested))
		echo := secret + " and " + nested + " and " + key
		long := strings.Repeat("x", 490) + secret
		said := runtimeapi.TaskStatus{Status: runtimeapi.StatusRunning, Stage: "compile: " + secret, Meta: json.RawMessage(fmt.Sprintf(`{"m":%q,%q:1}`, echo, nested))}
		for _, last := range []runtimeapi.TaskStatus{
			{Status: runtimeapi.StatusCompleted, Stage: "compile: completed", Result: json.RawMessage(fmt.Sprintf(`{"warnings":[%q],"large":%q}`, echo, strings.Repeat(secret+" ", 2000)))},
			{Status: runtimeapi.StatusFailed, Stage: "compile: " + nested, Error: &runtimeapi.Error{Code: "X", Message: long}},
		} {
			task := newTask(namespace, art, fromREST, withSealed(resttask.Credentials{APIKey: key, Args: args}))
			fake.On(fakeruntime.To(task.Spec.To), fakeruntime.Behaviour{Steps: fakeruntime.Script(said, last)})
			create(task)
			Eventually(stageOf(task)).Should(Equal("compile: [REDACTED]"))
			Expect(fake.Advance(task.TaskID())).To(Succeed())
			now := erased(task)
			text, err := json.Marshal(now.Status)
			Expect(err).NotTo(HaveOccurred())
			// A cut secret is one as well.
			Expect(string(text)).NotTo(ContainSubstring(secret[:12]))
			Expect(string(text)).To(ContainSubstring("[REDACTED]"))
		}
		// The suite looks for the secrets in all objects, events and logs in the end.
		fake.AddFault(fakeruntime.Fault{Op: fakeruntime.OpCreate, Respond: fakeruntime.Refuse(http.StatusBadRequest, "INVALID_ARGUMENT", "no "+long)})
		now := erased(create(newTask(namespace, art, fromREST, withSealed(resttask.Credentials{Args: args}))))
		Expect(endReason(now)).To(Equal("Failed/Rejected"))
		Expect(errorOf(now)).NotTo(ContainSubstring(secret[:12]))
	})

	It("is sent under the key that was forwarded, with no Secret and no question asked", func() {
		art := knownRuntime(bySecret)
		key := secretValue()
		task := newTask(namespace, art, fromREST, withSealed(resttask.Credentials{APIKey: key}), withSecret("none"))
		fake.On(fakeruntime.To(task.Spec.To), steady())
		task = running(create(task))
		Expect(current(task)().Spec.SealedCredentials).NotTo(BeNil(), "kept while it runs")
		Expect(fake.Set(task.TaskID(), fakeruntime.Completed(""))).To(Succeed())
		Expect(endReason(erased(task))).To(Equal("Complete/Completed"))
		for _, call := range fake.Calls() {
			if strings.Contains(string(call.Body), task.Status.SessionID) || keyOfCall(call) == task.TaskID() {
				Expect(call.Header.Get(runtimeapi.HeaderAPIKey)).To(Equal(key))
			}
		}
		Expect(seen.versions(task)[1].Status.CredentialFingerprint).NotTo(BeEmpty(), "on record before the call leaves")
	})

	It("fails at once when the executor refuses the key that was forwarded", func() {
		task := newTask(namespace, knownRuntime(bySecret), fromREST, withSealed(resttask.Credentials{APIKey: secretValue()}))
		fake.On(fakeruntime.To(task.Spec.To), steady(fakeruntime.Fault{Op: fakeruntime.OpCreate, Respond: fakeruntime.Refuse(http.StatusUnauthorized, "UNAUTHENTICATED", "no such key")}))
		now := erased(create(task))
		Expect(errorOf(now)).To(Equal("UNAUTHENTICATED: no such key"))
		Expect(fake.Report().Keys[task.TaskID()].Creates).To(BeNumerically("<=", 1))
	})

	It("loses its credentials when it is cancelled before it is submitted", func() {
		art := knownRuntime()
		task := create(newTask(namespace, art, fromREST, withSealed(resttask.Credentials{APIKey: secretValue()}), func(t *v1alpha1.CompileTask) { t.Spec.Suspend = true }))
		Eventually(reasonOf(task, v1alpha1.ConditionSubmitted)).Should(Equal(v1alpha1.ReasonSuspended))
		Expect(current(task)().Spec.SealedCredentials).NotTo(BeNil())
		cancel(task)
		Expect(endReason(erased(task))).To(Equal("Cancelled/" + v1alpha1.ReasonCancelledByUser))
		Expect(fake.Report().Keys).NotTo(HaveKey(task.TaskID()))
	})

	It("passes its trace on with every call", func() {
		const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		task := newTask(namespace, knownRuntime(), fromREST, func(t *v1alpha1.CompileTask) { t.Spec.RESTRequest.TraceParent = trace })
		fake.On(fakeruntime.To(task.Spec.To), steady())
		task = running(create(task))
		cancel(task)
		end(task)
		seen := map[fakeruntime.Op]bool{}
		for _, call := range fake.Calls() {
			if strings.Contains(string(call.Body), task.Status.SessionID) || keyOfCall(call) == task.TaskID() {
				Expect(call.Header.Values(runtimeapi.HeaderTraceParent)).To(Equal([]string{trace}))
				seen[call.Op] = true
			} else {
				Expect(call.Header.Get(runtimeapi.HeaderTraceParent)).To(BeEmpty())
			}
		}
		Expect(seen).To(HaveLen(3), "create, status, cancel")
	})

	It("runs though the key ring was rotated after the manager had read it", func() {
		task := newTask(namespace, knownRuntime(), fromREST)
		body, err := resttask.SealArgs(rotatedRing, resttask.OriginOf(task), json.RawMessage(exactArgs))
		Expect(err).NotTo(HaveOccurred())
		task.Spec.SealedArgs = body
		task = create(task)
		Expect(endReason(end(task))).To(Equal("Complete/Completed"))
		for _, call := range fake.Calls(fakeruntime.OpCreate) {
			if keyOfCall(call) == task.TaskID() {
				Expect(argsSent(call)).To(Equal(exactArgs))
			}
		}
		requireOneExecution(fake, task)
	})

	It("changes after its cancel was taken, by the clock that took it", func() {
		task := newTask(namespace, knownRuntime(), fromREST)
		fake.On(fakeruntime.To(task.Spec.To), fakeruntime.Behaviour{Steps: steady().Steps})
		task = running(create(task))
		asked := time.Now().Add(5 * time.Second).Truncate(time.Microsecond)
		patch(task, fmt.Sprintf(`{"spec":{"cancel":true},"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationCancelRequestedAt, asked.UTC().Format(time.RFC3339Nano)))
		now := end(task)
		Expect(now.Status.UpdateTime.Time).To(BeTemporally(">", asked))
		Expect(now.Status.CompletionTime.Time).To(BeTemporally("==", now.Status.UpdateTime.Time))
	})

	DescribeTable("fails for good when it is not the REST API's", func(change func(*v1alpha1.CompileTask)) {
		task := newTask(namespace, knownRuntime(), fromREST)
		change(task)
		creates := fake.Report().Creates
		now := end(create(task))
		Expect(endReason(now)).To(Equal("Failed/" + v1alpha1.ReasonInvalidRequest))
		Expect(errorOf(now)).To(HavePrefix("INVALID_ARGUMENT: "))
		Expect(fake.Report().Creates).To(Equal(creates))
	},
		Entry("with a forged mark", func(t *v1alpha1.CompileTask) { t.Spec.RESTRequest.Mark = "forged" }),
		Entry("with the mark of another user", func(t *v1alpha1.CompileTask) { t.Spec.Requester.Username = "bob" }),
		Entry("with the mark of another name", func(t *v1alpha1.CompileTask) { t.Name = resttask.RandomName() }),
		Entry("under another name", func(t *v1alpha1.CompileTask) { t.Name = "mine" }),
		Entry("by its name alone", func(t *v1alpha1.CompileTask) { t.Spec.RESTRequest = nil }),
		Entry("by sealed args alone", func(t *v1alpha1.CompileTask) {
			withSealedArgs(exactArgs)(t)
			t.Name, t.Spec.RESTRequest = "mine", nil
		}),
	)

	DescribeTable("fails for good when what is sealed in it can't be opened", func(change func(*v1alpha1.CompileTask), advice string) {
		task := newTask(namespace, knownRuntime(), fromREST)
		change(task)
		creates := fake.Report().Creates
		now := erased(create(task))
		Expect(endReason(now)).To(Equal("Failed/" + v1alpha1.ReasonSealedBodyUnreadable))
		Expect(errorOf(now)).To(And(HavePrefix("INTERNAL: "), ContainSubstring(advice)))
		Expect(fake.Report().Creates).To(Equal(creates))
	},
		Entry("since it is another task's", func(t *v1alpha1.CompileTask) {
			name := t.Name
			t.Name = resttask.RandomName()
			withSealed(resttask.Credentials{APIKey: secretValue()})(t)
			t.Name = name
		}, "made for another task"),
		Entry("since its args were changed", func(t *v1alpha1.CompileTask) {
			withSealedArgs(exactArgs)(t)
			t.Spec.SealedArgs.Data[len(t.Spec.SealedArgs.Data)-1] ^= 1
		}, "it was changed"),
		Entry("since its key is gone", func(t *v1alpha1.CompileTask) {
			lost, err := sealed.ParseKeyRing(sealed.GenerateKeyRingData())
			Expect(err).NotTo(HaveOccurred())
			t.Spec.SealedCredentials, err = resttask.SealCredentials(lost, resttask.OriginOf(t), resttask.Credentials{APIKey: secretValue()})
			Expect(err).NotTo(HaveOccurred())
		}, "see whether the Secret agentruntime-key-ring has it and restart the manager"),
	)
})

// unerasing is a client whose patches of the spec never arrive, as if the process
// were killed before them.
type unerasing struct{ client.Client }

func (u unerasing) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	if text, err := patch.Data(object); err == nil && strings.Contains(string(text), "sealedCredentials") {
		return errors.New("killed")
	}
	return u.Client.Patch(ctx, object, patch, options...)
}

var _ = Describe("Sealed credentials that a manager left behind", func() {
	It("are erased by the next one, and its finalizer is not held up by them", func() {
		fake := startFake(fakeruntime.Options{Durable: true, Default: steady()})
		namespace, art := newNamespace(), newRuntime(fake.URL)
		stop := startManager(func(r *compiletask.Reconciler) { r.Client = unerasing{r.Client} })
		task := running(create(newTask(namespace, art.Name, fromREST, withSealed(resttask.Credentials{APIKey: secretValue()}))))
		Expect(fake.Set(task.TaskID(), fakeruntime.Completed(""))).To(Succeed())
		Expect(endReason(end(task))).To(Equal("Complete/Completed"))
		stop()
		Expect(current(task)().Spec.SealedCredentials).NotTo(BeNil())
		before := current(task)()
		startManager()
		now := erased(task)
		Expect(now.Status).To(Equal(before.Status))
		Expect(now.Spec.Requester).To(Equal(before.Spec.Requester))
		Expect(now.Spec.From).To(Equal(before.Spec.From))
		requireOneExecution(fake, task)
	})

	It("do not go with a new task of the name", func() {
		namespace := newNamespace()
		fake := startFake(fakeruntime.Options{Durable: true})
		art := newRuntime(fake.URL)
		task := newTask(namespace, art.Name, fromREST, withSealed(resttask.Credentials{APIKey: secretValue()}))
		again := task.DeepCopy()
		startManager()
		erased(create(task))
		remove(task)
		Eventually(exists(task)).Should(BeFalse())
		again.ObjectMeta = metav1.ObjectMeta{Namespace: again.Namespace, Name: again.Name}
		Expect(endReason(erased(create(again)))).To(Equal("Complete/Completed"))
		Expect(fake.Report().Executions).To(Equal(1), "to the executor it is the same task")
	})

	It("under a key that the manager does not know wait while the ring can't be read", func() {
		fake := startFake(fakeruntime.Options{Durable: true})
		namespace, art := newNamespace(), newRuntime(fake.URL)
		var reads atomic.Int32
		startManager(func(r *compiletask.Reconciler) {
			r.ReloadKeyRing = func(context.Context) (*sealed.KeyRing, error) {
				if reads.Add(1) <= 2 {
					return nil, errors.New("no answer")
				}
				return rotatedRing, nil
			}
		})
		task := newTask(namespace, art.Name, fromREST)
		body, err := resttask.SealCredentials(rotatedRing, resttask.OriginOf(task), resttask.Credentials{APIKey: secretValue()})
		Expect(err).NotTo(HaveOccurred())
		task.Spec.SealedCredentials = body
		Expect(endReason(erased(create(task)))).To(Equal("Complete/Completed"))
		Expect(reads.Load()).To(BeNumerically(">", 2))
	})

	It("that can't be opened any more hold up a running task until the key is back", func() {
		fake := startFake(fakeruntime.Options{Durable: true, Default: steady()})
		namespace, art := newNamespace(), newRuntime(fake.URL)
		stop := startManager()
		secret := secretValue()
		task := running(create(newTask(namespace, art.Name, fromREST, withSealed(resttask.Credentials{Args: json.RawMessage(fmt.Sprintf(`{"api_key":%q}`, secret))}))))
		stop()
		Expect(fake.Set(task.TaskID(), fakeruntime.Completed(fmt.Sprintf(`{"text":%q}`, secret)))).To(Succeed())
		polls := fake.Report().Status
		lost, err := sealed.ParseKeyRing(sealed.GenerateKeyRingData())
		Expect(err).NotTo(HaveOccurred())
		stop = startManager(func(r *compiletask.Reconciler) { r.KeyRing, r.ReloadKeyRing = lost, nil })
		Eventually(reasonOf(task, v1alpha1.ConditionExecutorReachable)).Should(Equal(v1alpha1.ReasonSealedBodyUnreadable))
		Expect(fake.Report().Status).To(Equal(polls), "nothing is asked whose answer could not be shown")
		stop()
		startManager()
		now := erased(task)
		Expect(endReason(now)).To(Equal("Complete/Completed"))
		Expect(string(now.Status.Result.Raw)).To(ContainSubstring("[REDACTED]"))
	})
})
