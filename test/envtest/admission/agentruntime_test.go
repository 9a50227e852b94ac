package admission_test

import (
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
)

var _ = Describe("The schema of an AgentRuntime", func() {
	plain := map[string]any{"url": "https://runtime.example.com:1944/base"}
	create := func(ctx SpecContext, spec map[string]any) error {
		object := newObject("AgentRuntime")
		object.Object["spec"] = spec
		return admin.Create(ctx, object, client.DryRunAll)
	}

	It("fills in its defaults", func(ctx SpecContext) {
		object := newObject("AgentRuntime")
		object.Object["spec"] = map[string]any{"url": "http://x", "gatewayTokenSecretRef": map[string]any{"name": "token"}}
		Expect(admin.Create(ctx, object, client.DryRunAll)).To(Succeed())
		var got v1alpha1.AgentRuntime
		Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &got)).To(Succeed())
		Expect(got.Spec).To(Equal(v1alpha1.AgentRuntimeSpec{
			URL: "http://x", GatewayTokenSecretRef: &v1alpha1.SecretKeyReference{Name: "token", Key: "token"},
			MaxConcurrentTasks: 10, RequestTimeoutSeconds: 10, PollIntervalSeconds: 3, HeldPollSeconds: ptr.To[int32](30),
			UnavailableAfterSeconds: 600, CancelGiveUpAfterSeconds: 600,
		}))
	})

	DescribeTable("accepts", func(ctx SpecContext, spec map[string]any) {
		Expect(create(ctx, spec)).To(Succeed())
	},
		Entry("the least", plain),
		Entry("a plain host", with(plain, "url", "http://runtime")),
		Entry("held polls turned off", with(plain, "heldPollSeconds", int64(0))),
		Entry("the longest held polls", with(plain, "heldPollSeconds", int64(60))),
		Entry("no credentials", with(plain, "credentials", map[string]any{"mode": "None"})),
		Entry("credentials from Secrets", with(plain, "credentials", map[string]any{"mode": "Secret"})),
		Entry("credentials from ServiceAccounts", with(plain, "credentials", map[string]any{"mode": "ServiceAccountToken", "audience": "runtime"})),
		Entry("a content store", with(plain, "contentStore", map[string]any{"url": "https://store/api"})),
		Entry("a certificate bundle", with(plain, "caBundle", "eHh4eA==")),
		Entry("the most of everything", map[string]any{
			"url": "http://" + strings.Repeat("x", 2041), "durableKeys": true, "maxConcurrentTasks": int64(100000), "requestTimeoutSeconds": int64(300),
			"pollIntervalSeconds": int64(300), "unavailableAfterSeconds": int64(86400), "cancelGiveUpAfterSeconds": int64(86400),
		}),
	)

	DescribeTable("refuses", func(ctx SpecContext, spec map[string]any, text string) {
		Expect(create(ctx, spec)).To(beRefused(http.StatusUnprocessableEntity, text))
	},
		Entry("no URL", map[string]any{}, "spec.url: Required"),
		Entry("an empty URL", with(plain, "url", ""), "spec.url"),
		Entry("a URL too long", with(plain, "url", "http://"+strings.Repeat("x", 2042)), "spec.url: Too long"),
		Entry("another scheme", with(plain, "url", "ftp://x"), "spec.url"),
		Entry("a URL with a user", with(plain, "url", "http://u:p@x"), "spec.url"),
		Entry("a URL with a query", with(plain, "url", "http://x/?a=b"), "spec.url"),
		Entry("a URL with a fragment", with(plain, "url", "http://x/#a"), "spec.url"),
		Entry("a URL with white space", with(plain, "url", "http://x/a b"), "spec.url"),
		Entry("an empty bundle", with(plain, "caBundle", ""), "spec.caBundle"),
		Entry("a bundle too long", with(plain, "caBundle", strings.Repeat("eHh4", 65537)), "spec.caBundle"),
		Entry("an unknown mode", with(plain, "credentials", map[string]any{"mode": "Key"}), "spec.credentials.mode"),
		Entry("credentials without a mode", with(plain, "credentials", map[string]any{}), "spec.credentials.mode: Required"),
		Entry("tokens without an audience", with(plain, "credentials", map[string]any{"mode": "ServiceAccountToken"}), "audience is required"),
		Entry("tokens for an empty audience", with(plain, "credentials", map[string]any{"mode": "ServiceAccountToken", "audience": ""}), "audience"),
		Entry("an audience too long", with(plain, "credentials", map[string]any{"mode": "ServiceAccountToken", "audience": strings.Repeat("a", 257)}), "audience"),
		Entry("an audience for a Secret", with(plain, "credentials", map[string]any{"mode": "Secret", "audience": "a"}), "audience is only for"),
		Entry("an audience for nothing", with(plain, "credentials", map[string]any{"mode": "None", "audience": "a"}), "audience is only for"),
		Entry("a gateway token without a name", with(plain, "gatewayTokenSecretRef", map[string]any{"key": "a"}), "gatewayTokenSecretRef.name: Required"),
		Entry("a gateway token of another namespace", with(plain, "gatewayTokenSecretRef", map[string]any{"name": "a/b"}), "gatewayTokenSecretRef.name"),
		Entry("a gateway token name too long", with(plain, "gatewayTokenSecretRef", map[string]any{"name": strings.Repeat("a", longName)}), "gatewayTokenSecretRef.name"),
		Entry("a gateway token's odd key", with(plain, "gatewayTokenSecretRef", map[string]any{"name": "a", "key": "a b"}), "gatewayTokenSecretRef.key"),
		Entry("a gateway token's empty key", with(plain, "gatewayTokenSecretRef", map[string]any{"name": "a", "key": ""}), "gatewayTokenSecretRef.key"),
		Entry("a gateway token's key too long", with(plain, "gatewayTokenSecretRef", map[string]any{"name": "a", "key": strings.Repeat("a", longName)}), "gatewayTokenSecretRef.key"),
		Entry("no tasks at all", with(plain, "maxConcurrentTasks", int64(0)), "spec.maxConcurrentTasks"),
		Entry("too many tasks", with(plain, "maxConcurrentTasks", int64(100001)), "spec.maxConcurrentTasks"),
		Entry("no time for a call", with(plain, "requestTimeoutSeconds", int64(0)), "spec.requestTimeoutSeconds"),
		Entry("too much time for a call", with(plain, "requestTimeoutSeconds", int64(301)), "spec.requestTimeoutSeconds"),
		Entry("polls without a pause", with(plain, "pollIntervalSeconds", int64(0)), "spec.pollIntervalSeconds"),
		Entry("polls too rare", with(plain, "pollIntervalSeconds", int64(301)), "spec.pollIntervalSeconds"),
		Entry("negative holds", with(plain, "heldPollSeconds", int64(-1)), "spec.heldPollSeconds"),
		Entry("holds too long", with(plain, "heldPollSeconds", int64(61)), "spec.heldPollSeconds"),
		Entry("no patience", with(plain, "unavailableAfterSeconds", int64(0)), "spec.unavailableAfterSeconds"),
		Entry("too much patience", with(plain, "unavailableAfterSeconds", int64(86401)), "spec.unavailableAfterSeconds"),
		Entry("no patience with cancels", with(plain, "cancelGiveUpAfterSeconds", int64(0)), "spec.cancelGiveUpAfterSeconds"),
		Entry("too much patience with cancels", with(plain, "cancelGiveUpAfterSeconds", int64(86401)), "spec.cancelGiveUpAfterSeconds"),
		Entry("a content store without a URL", with(plain, "contentStore", map[string]any{}), "spec.contentStore.url: Required"),
		Entry("a content store that is no URL", with(plain, "contentStore", map[string]any{"url": "store"}), "spec.contentStore.url"),
		Entry("a content store's URL too long", with(plain, "contentStore", map[string]any{"url": "http://" + strings.Repeat("x", 2042)}), "spec.contentStore.url: Too long"),
	)

	It("may be written by admins and changed later", func(ctx SpecContext) {
		object := newObject("AgentRuntime")
		object.Object["spec"] = plain
		Expect(alice.Create(ctx, object.DeepCopy())).To(beRefused(http.StatusForbidden, "cannot create"))
		bind(ctx, "", carol.name, "agentruntime-admin")
		Expect(carol.Create(ctx, object)).To(Succeed())
		DeferCleanup(remove, client.Object(object))
		Expect(carol.Patch(ctx, object, specPatch(map[string]any{"url": "http://other", "credentials": map[string]any{"mode": "Secret"}}))).To(Succeed())
	})
})
