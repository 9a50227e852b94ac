package admission_test

import (
	"encoding/base64"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
)

var _ = Describe("A Payload", func() {
	var (
		namespace       string
		manager, facade client.Client
	)
	BeforeEach(func(ctx SpecContext) {
		namespace = newNamespace(ctx)
		manager, facade = serviceAccount(managerUser), serviceAccount(facadeUser)
	})
	payload := func(spec map[string]any) *unstructured.Unstructured {
		object := newObject("Payload")
		object.SetNamespace(namespace)
		object.Object["spec"] = spec
		return object
	}
	sealed := func() map[string]any {
		return map[string]any{"data": map[string]any{"sealed": "+/+/", "size": int64(3), "mac": "m"}}
	}

	It("is written by manager and facade", func(ctx SpecContext) {
		for _, as := range []client.Client{manager, facade} {
			claim := payload(map[string]any{})
			Expect(as.Create(ctx, claim)).To(Succeed())
			Expect(as.Patch(ctx, claim, specPatch(sealed()))).To(Succeed())
		}
	})

	It("is written by nobody else, whatever RBAC says", func(ctx SpecContext) {
		grant(ctx, namespace, bob.name, rule("payloads", "*"))
		claim := payload(map[string]any{})
		Expect(manager.Create(ctx, claim)).To(Succeed())
		for _, as := range []client.Client{admin, bob} {
			Expect(as.Create(ctx, payload(sealed()))).To(beRefused(http.StatusForbidden, "only the operator writes Payloads"))
			for _, patch := range []map[string]any{{}, {"spec": sealed()}, {"metadata": map[string]any{"labels": map[string]any{"a": "b"}}}} {
				Expect(patchOf(ctx, as, claim, mergePatch(patch))).To(beRefused(http.StatusForbidden, "only the operator writes Payloads"))
			}
		}
		Expect(bob.Delete(ctx, claim)).To(Succeed())
	})

	It("gives its metadata, and only that, to the garbage collector", func(ctx SpecContext) {
		claim := payload(map[string]any{})
		Expect(manager.Create(ctx, claim)).To(Succeed())
		collector := serviceAccount(collectorUser)
		Expect(patchOf(ctx, collector, claim, mergePatch(map[string]any{"metadata": map[string]any{"finalizers": []any{"orphan"}}}))).To(Succeed())
		Expect(patchOf(ctx, collector, claim, mergePatch(map[string]any{"metadata": map[string]any{"finalizers": nil}}))).To(Succeed())
		Expect(patchOf(ctx, collector, claim, specPatch(sealed()))).To(beRefused(http.StatusForbidden, "only the operator writes Payloads"))
	})

	It("is shown by no shipped role", func(ctx SpecContext) {
		claim := payload(map[string]any{})
		Expect(manager.Create(ctx, claim)).To(Succeed())
		bind(ctx, namespace, carol.name, "agentruntime-admin", "agentruntime-viewer", "agentruntime-user", "agentruntime-aggregate-to-view")
		err := carol.Get(ctx, client.ObjectKeyFromObject(claim), claim)
		Expect(err).To(beRefused(http.StatusForbidden, "cannot get"))
	})

	DescribeTable("once filled can't be changed", func(ctx SpecContext, change map[string]any) {
		object := payload(sealed())
		Expect(manager.Create(ctx, object)).To(Succeed())
		Expect(patchOf(ctx, manager, object, specPatch(change))).To(beRefused(http.StatusUnprocessableEntity, "spec.data can be set once"))
		Expect(patchOf(ctx, manager, object, mergePatch(map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}}))).To(Succeed())
	},
		Entry("another body", map[string]any{"data": map[string]any{"sealed": "YWJk"}}),
		Entry("no body", map[string]any{"data": nil}),
		Entry("another size", map[string]any{"data": map[string]any{"size": 4}}),
		Entry("no size", map[string]any{"data": map[string]any{"size": nil}}),
		Entry("another mac", map[string]any{"data": map[string]any{"mac": "n"}}),
		Entry("no mac", map[string]any{"data": map[string]any{"mac": nil}}),
	)

	It("can't lose its whole spec once filled", func(ctx SpecContext) {
		object := payload(sealed())
		Expect(manager.Create(ctx, object)).To(Succeed())
		err := patchOf(ctx, manager, object, mergePatch(map[string]any{"spec": nil}))
		Expect(err).To(beRefused(http.StatusUnprocessableEntity, "spec.data can be set once"))
	})

	DescribeTable("accepts", func(ctx SpecContext, data map[string]any) {
		Expect(manager.Create(ctx, payload(map[string]any{"data": data}), client.DryRunAll)).To(Succeed())
	},
		Entry("a body alone", map[string]any{"sealed": "eHh4"}),
		Entry("the largest body", map[string]any{"sealed": base64.StdEncoding.EncodeToString(make([]byte, v1alpha1.MaxPayloadBytes))}),
	)

	DescribeTable("refuses", func(ctx SpecContext, data map[string]any, text string) {
		err := manager.Create(ctx, payload(map[string]any{"data": data}), client.DryRunAll)
		Expect(err).To(beRefused(http.StatusUnprocessableEntity, text))
	},
		Entry("no body", map[string]any{"size": int64(1)}, "spec.data.sealed: Required"),
		Entry("a body that is no base64", map[string]any{"sealed": "a-b_"}, "spec.data.sealed"),
		Entry("an empty body", map[string]any{"sealed": ""}, "spec.data.sealed"),
		Entry("a body too large", map[string]any{"sealed": strings.Repeat("eHh4", 349527)}, "spec.data.sealed"),
		Entry("a negative size", map[string]any{"sealed": "eHh4", "size": int64(-1)}, "spec.data.size"),
		Entry("an empty mac", map[string]any{"sealed": "eHh4", "mac": ""}, "spec.data.mac"),
		Entry("a mac too long", map[string]any{"sealed": "eHh4", "mac": strings.Repeat("m", 129)}, "spec.data.mac"),
	)
})
