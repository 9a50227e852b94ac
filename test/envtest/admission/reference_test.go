package admission_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/agentruntime/operator/test/envtest"
)

// schemaWalk collects what a schema lacks to be the reference manual (every field
// described) and to be safe to store (every text, list and map bounded).
type schemaWalk struct {
	lacks []string
}

func (w *schemaWalk) lack(path, what string) {
	w.lacks = append(w.lacks, path+" has no "+what)
}

func (w *schemaWalk) properties(path string, schema *apiextensionsv1.JSONSchemaProps) {
	for name, property := range schema.Properties {
		at := path + "." + name
		if property.Description == "" {
			w.lack(at, "description")
		}
		w.bounds(at, &property)
	}
}

func (w *schemaWalk) bounds(path string, schema *apiextensionsv1.JSONSchemaProps) {
	switch schema.Type {
	case "string":
		// Times bound themselves by their format, enums by their values.
		if schema.MaxLength == nil && len(schema.Enum) == 0 && schema.Format != "date-time" {
			w.lack(path, "maxLength")
		}
	case "array":
		if schema.MaxItems == nil {
			w.lack(path, "maxItems")
		}
		w.bounds(path+"[]", schema.Items.Schema)
	case "integer", "number":
		if schema.Minimum == nil {
			w.lack(path, "minimum")
		}
	case "object":
		w.object(path, schema)
	}
}

func (w *schemaWalk) object(path string, schema *apiextensionsv1.JSONSchemaProps) {
	if schema.AdditionalProperties != nil {
		if schema.MaxProperties == nil {
			w.lack(path, "maxProperties")
		}
		w.bounds(path+"{}", schema.AdditionalProperties.Schema)
	}
	w.properties(path, schema)
}

func readCRD(name string) *apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(envtest.Root(), "config", "crd", "bases", "agentruntime.dev_"+name+".yaml"))
	Expect(err).NotTo(HaveOccurred())
	crd := &apiextensionsv1.CustomResourceDefinition{}
	Expect(yaml.UnmarshalStrict(text, crd)).To(Succeed())
	Expect(crd.Spec.Versions).NotTo(BeEmpty())
	return crd
}

// freeJSON are the fields whose content is not ours to describe or bound: args is
// bounded by the webhook, the others by the controller that writes them.
var freeJSON = []string{"spec.args", "status.meta", "status.result"}

var _ = Describe("The reference that kubectl explain shows", func() {
	for _, name := range []string{"agentruntimes", "compiletasks", "payloads"} {
		It("describes and bounds every field of "+name, func() {
			crd := readCRD(name)
			for _, version := range crd.Spec.Versions {
				root := version.Schema.OpenAPIV3Schema
				Expect(root.Description).NotTo(BeEmpty())
				Expect(version.AdditionalPrinterColumns).NotTo(BeEmpty())
				walk := &schemaWalk{}
				for _, part := range []string{"spec", "status"} {
					property, found := root.Properties[part]
					if !found {
						continue
					}
					Expect(property.Description).NotTo(BeEmpty(), part)
					walk.bounds(part, &property)
				}
				Expect(walk.lacks).To(BeEmpty())
			}
		})

		It("leaves content open only where it says so in "+name, func() {
			crd := readCRD(name)
			var open func(path string, schema apiextensionsv1.JSONSchemaProps)
			open = func(path string, schema apiextensionsv1.JSONSchemaProps) {
				if schema.XPreserveUnknownFields != nil {
					Expect(slices.Contains(freeJSON, path)).To(BeTrue(), path)
					Expect(schema.XMapType).To(HaveValue(Equal("atomic")), path)
				}
				for field, property := range schema.Properties {
					open(path+"."+field, property)
				}
			}
			for _, part := range []string{"spec", "status"} {
				open(part, crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties[part])
			}
		})
	}
})

var _ = Describe("The columns that kubectl get shows", func() {
	DescribeTable("are what a person on call wants", func(name string, want ...string) {
		crd := readCRD(name)
		shown := []string{}
		for _, column := range crd.Spec.Versions[0].AdditionalPrinterColumns {
			if column.Priority == 0 {
				shown = append(shown, column.Name)
			}
		}
		Expect(shown).To(Equal(want))
		Expect(crd.Spec.Names.Categories).To(ContainElement("agents"))
		Expect(crd.Spec.Names.ShortNames).To(HaveLen(1))
	},
		Entry("of a CompileTask", "compiletasks", "Phase", "Stage", "To", "Skill", "Runtime", "Age"),
		Entry("of an AgentRuntime", "agentruntimes", "Ready", "Reason", "Default", "Running", "Max", "Age"),
		Entry("of a Payload", "payloads", "Owner kind", "Owner", "Size", "Age"),
	)

	It("of a CompileTask shows the runtime named, and in wide output the one it is bound to", func() {
		paths := map[string]string{}
		for _, column := range readCRD("compiletasks").Spec.Versions[0].AdditionalPrinterColumns {
			paths[column.Name] = column.JSONPath
		}
		Expect(paths).To(HaveKeyWithValue("Runtime", ".spec.runtimeName"))
		Expect(paths).To(HaveKeyWithValue("Bound runtime", ".status.runtimeName"))
	})
})

var _ = Describe("The samples", func() {
	It("can be applied, the Payload by the operator alone", func(ctx SpecContext) {
		objects, err := envtest.Load(ctx, "config/samples")
		Expect(err).NotTo(HaveOccurred())
		payloads, err := envtest.Load(ctx, "config/samples/payload.yaml")
		Expect(err).NotTo(HaveOccurred())
		objects = append(objects, payloads...)
		namespace := newNamespace(ctx)
		kinds := map[string]int{}
		for _, object := range objects {
			as := admin
			if object.GetKind() == "Payload" {
				as = serviceAccount(managerUser)
			}
			if object.GetKind() != "AgentRuntime" {
				object.SetNamespace(namespace)
			}
			Expect(client.WithFieldValidation(as, "Strict").Create(ctx, object, client.DryRunAll)).
				To(Succeed(), fmt.Sprintf("%s %s", object.GetKind(), object.GetName()))
			kinds[object.GetKind()]++
		}
		Expect(kinds).To(And(HaveKey("CompileTask"), HaveKey("AgentRuntime"), HaveKey("Payload")))
	})
})
