// A stand-in for the Terraform provider hashicorp/helm, for tests where that cannot be had.
//
// It has the schema of what our modules use of `helm_release`, and does with a program `helm` what the provider does with
// Helm's library: `upgrade --install`, `uninstall`. It is not for users.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/hashicorp/terraform-plugin-sdk/v2/diag"
	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"
	"github.com/hashicorp/terraform-plugin-sdk/v2/plugin"
)

func text(required bool) *schema.Schema {
	return &schema.Schema{Type: schema.TypeString, Required: required, Optional: !required}
}

func flag(or bool) *schema.Schema {
	return &schema.Schema{Type: schema.TypeBool, Optional: true, Default: or}
}

func provider() *schema.Provider {
	name := text(true)
	name.ForceNew = true
	namespace := text(false)
	namespace.ForceNew, namespace.Default = true, "default"
	return &schema.Provider{
		Schema: map[string]*schema.Schema{},
		ResourcesMap: map[string]*schema.Resource{"helm_release": {
			Schema: map[string]*schema.Schema{
				"name": name, "namespace": namespace, "chart": text(true), "repository": text(false), "version": text(false),
				"create_namespace": flag(false), "wait": flag(true), "skip_crds": flag(false), "atomic": flag(false),
				"timeout": {Type: schema.TypeInt, Optional: true, Default: 300},
				"values":  {Type: schema.TypeList, Optional: true, Elem: &schema.Schema{Type: schema.TypeString}},
				"status":  {Type: schema.TypeString, Computed: true},
			},
			CreateContext: install, UpdateContext: install, DeleteContext: uninstall,
			ReadContext: func(context.Context, *schema.ResourceData, any) diag.Diagnostics { return nil },
		}},
	}
}

func install(_ context.Context, d *schema.ResourceData, _ any) diag.Diagnostics {
	chart := d.Get("chart").(string)
	arguments := []string{"upgrade", "--install", d.Get("name").(string)}
	if repository := d.Get("repository").(string); repository != "" {
		chart = strings.TrimSuffix(repository, "/") + "/" + chart
	}
	arguments = append(arguments, chart, "--namespace", d.Get("namespace").(string))
	if version := d.Get("version").(string); version != "" {
		arguments = append(arguments, "--version", version)
	}
	for _, option := range []string{"create_namespace", "skip_crds", "wait"} {
		if d.Get(option).(bool) {
			arguments = append(arguments, "--"+strings.ReplaceAll(option, "_", "-"))
		}
	}
	for n, values := range d.Get("values").([]any) {
		file, err := os.CreateTemp("", "values")
		if err != nil {
			return diag.FromErr(err)
		}
		defer os.Remove(file.Name())
		if _, err := file.WriteString(fmt.Sprint(values)); err != nil {
			return diag.Errorf("values %d: %v", n, err)
		}
		arguments = append(arguments, "--values", file.Name())
	}
	if diags := helm(arguments); diags != nil {
		return diags
	}
	d.SetId(d.Get("name").(string))
	return diag.FromErr(d.Set("status", "deployed"))
}

func uninstall(_ context.Context, d *schema.ResourceData, _ any) diag.Diagnostics {
	return helm([]string{"uninstall", d.Id(), "--namespace", d.Get("namespace").(string), "--ignore-not-found"})
}

func helm(arguments []string) diag.Diagnostics {
	if said, err := exec.Command("helm", arguments...).CombinedOutput(); err != nil {
		return diag.Errorf("helm %s: %v\n%s", strings.Join(arguments, " "), err, said)
	}
	return nil
}

func main() {
	plugin.Serve(&plugin.ServeOpts{ProviderFunc: provider})
}
