package compiletask_test

import (
	"context"
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/resttask"
	"github.com/agentruntime/operator/internal/sealed"
	"github.com/agentruntime/operator/test/fakeruntime"
)

var _ = Describe("The result", Ordered, func() {
	var namespace string
	BeforeAll(func() {
		namespace = newNamespace()
		startManager()
	})
	// endWith has a task end in a status and returns it.
	endWith := func(options fakeruntime.Options, behaviour fakeruntime.Behaviour, change ...func(*v1alpha1.AgentRuntimeSpec)) *v1alpha1.CompileTask {
		GinkgoHelper()
		options.Durable, options.Default = true, behaviour
		fake := startFake(options)
		return end(create(newTask(namespace, newRuntime(fake.URL, change...).Name, withSecret("key"))))
	}
	once := func(result, meta string) fakeruntime.Behaviour {
		status := fakeruntime.Completed(result)
		if meta != "" {
			status.Meta = json.RawMessage(meta)
		}
		return fakeruntime.Behaviour{Steps: fakeruntime.Script(status)}
	}

	It("stands in the status with a summary, when it is small", func() {
		now := endWith(fakeruntime.Options{}, once(`{"created":["a","b"],"updated":[],"unchanged":["c"],"page_count":3,"link_count":7,"warnings":["odd"],"n":12345678901}`, `{"token_usage":{"total":1}}`))
		Expect(string(now.Status.Result.Raw)).To(ContainSubstring(`"n":12345678901`))
		Expect(now.Status.ResultPayloadName).To(BeEmpty())
		Expect(now.Status.ResultSummary).To(HaveValue(And(
			HaveField("Created", int32(2)), HaveField("Unchanged", int32(1)), HaveField("PageCount", int32(3)), HaveField("LinkCount", int32(7)),
			HaveField("Warnings", []string{"odd"}), HaveField("WarningCount", int32(1)))))
		Expect(string(now.Status.Meta.Raw)).To(MatchJSON(`{"token_usage":{"total":1}}`))
	})

	It("stands in a sealed Payload of the task's, when it is large", func() {
		large := `{"created":["` + strings.Repeat("viking://resources/w/page.md ", 1000) + `"],"page_count":1}`
		now := endWith(fakeruntime.Options{}, once(large, ""))
		Expect(endReason(now)).To(Equal("Complete/Completed"), errorOf(now))
		Expect(now.Status.Result).To(BeNil())
		Expect(now.Status.ResultSummary).To(HaveValue(And(HaveField("Created", int32(1)), HaveField("ResultBytes", int64(len(large))))))
		var payload v1alpha1.Payload
		Expect(k8s.Get(context.Background(), types.NamespacedName{Namespace: namespace, Name: now.Status.ResultPayloadName}, &payload)).To(Succeed())
		Expect(metav1.IsControlledBy(&payload, now)).To(BeTrue())
		Expect(payload.Spec.Data.Size).To(BeEquivalentTo(len(large)))
		box, err := sealed.Unmarshal(payload.Spec.Data.Sealed)
		Expect(err).NotTo(HaveOccurred())
		Expect(keyRing.Open(box, resttask.ResultBinding(now))).To(MatchJSON(large))
	})

	It("is dropped with a note when nothing can hold it", func() {
		var noise strings.Builder
		for noise.Len() < 5<<19 {
			noise.WriteString(secretless())
		}
		now := endWith(fakeruntime.Options{}, once(`{"created":["a"],"text":"`+noise.String()+`"}`, ""))
		Expect(endReason(now)).To(Equal("Complete/Completed"))
		Expect(now.Status.ResultPayloadName).To(BeEmpty())
		Expect(now.Status.Result).To(BeNil())
		Expect(now.Status.ResultSummary.Warnings).To(ConsistOf(ContainSubstring("too large")))
		Expect(now.Status.ResultSummary.Created).To(BeEquivalentTo(1))
	})

	It("comes without metadata that is too large, with a warning", func() {
		now := endWith(fakeruntime.Options{}, once(`{"warnings":["odd"]}`, `{"much":"`+strings.Repeat("x", v1alpha1.MaxMetaBytes)+`"}`))
		Expect(now.Status.Meta).To(BeNil())
		Expect(now.Status.ResultSummary.Warnings).To(HaveLen(2))
		Expect(now.Status.ResultSummary.Warnings[0]).To(ContainSubstring("metadata is too large"))
		Expect(now.Status.ResultSummary.WarningCount).To(BeEquivalentTo(2))
	})

	It("and all else shows no secret", func() {
		grant(namespace, mayGetSecrets)
		key, token := secretValue(), secretValue()
		keySecret(namespace, key)
		gateway := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, GenerateName: "gateway-"},
			Type:       v1alpha1.SecretTypeGatewayToken, Data: map[string][]byte{"token": []byte(token)},
		}
		Expect(k8s.Create(context.Background(), gateway)).To(Succeed())
		guarded := func(s *v1alpha1.AgentRuntimeSpec) {
			s.GatewayTokenSecretRef = &v1alpha1.SecretKeyReference{Name: gateway.Name}
		}
		pattern := "ghp_" + strings.TrimPrefix(secretValue(), "hush")
		secrets = append(secrets, pattern)
		spill := `{"` + key + `":1,"list":["` + token + `",{"api_key":"x","note":"Bearer ` + pattern + `, ` + key + `"}]}`
		stage := fakeruntime.Running("compile: " + key)
		stage.Meta = json.RawMessage(spill)
		options := fakeruntime.Options{GatewayToken: token, RequireAPIKey: true}

		completed := fakeruntime.Completed(spill)
		completed.Meta = json.RawMessage(spill)
		now := endWith(options, fakeruntime.Behaviour{Steps: fakeruntime.Script(completed)}, bySecret, guarded)
		Expect(endReason(now)).To(Equal("Complete/Completed"))
		Expect(string(now.Status.Result.Raw)).To(MatchJSON(`{"[REDACTED]":1,"list":["[REDACTED]",{"note":"[REDACTED], [REDACTED]"}]}`))
		Expect(string(now.Status.Meta.Raw)).To(MatchJSON(string(now.Status.Result.Raw)))

		failed := fakeruntime.Failed("X", "the key "+key+" of "+token+" and "+pattern)
		failed.Meta = json.RawMessage(spill)
		now = endWith(options, fakeruntime.Behaviour{Steps: []fakeruntime.Step{{Status: stage}, {After: 1200e6, Status: failed}}}, bySecret, guarded)
		Expect(errorOf(now)).To(Equal("X: the key [REDACTED] of [REDACTED] and [REDACTED]"))
		Expect(now.Status.Stage).To(Equal("[REDACTED]"))

		refused := fakeruntime.Behaviour{Faults: []fakeruntime.Fault{{Op: fakeruntime.OpCreate, Respond: fakeruntime.Refuse(400, "INVALID_ARGUMENT", "bad key "+key)}}}
		now = endWith(options, refused, bySecret, guarded)
		Expect(errorOf(now)).To(Equal("INVALID_ARGUMENT: bad key [REDACTED]"))
	})
})
