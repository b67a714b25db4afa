"""Programs that travel with a job. They import nothing of Assay but assay_payloads, which travels too."""
