//! The verbs: one function per operation on models, each with a builder for its options.

#[cfg(feature = "files")]
mod calibrate;
#[cfg(feature = "files")]
mod check;
#[cfg(feature = "files")]
mod checkpoint;
#[cfg(feature = "files")]
mod convert;
#[cfg(feature = "files")]
mod diff;
#[cfg(feature = "files")]
mod edit;
mod estimate;
#[cfg(feature = "files")]
mod extract;
#[cfg(feature = "files")]
mod graft;
#[cfg(feature = "files")]
mod hash;
#[cfg(feature = "files")]
mod imatrix;
#[cfg(feature = "files")]
mod index;
#[cfg(feature = "files")]
mod list;
#[cfg(feature = "files")]
mod lora;
#[cfg(feature = "files")]
mod measure;
#[cfg(feature = "files")]
mod measuring;
#[cfg(feature = "files")]
mod quantize;
#[cfg(feature = "files")]
mod rename;
mod render;
#[cfg(feature = "files")]
mod repository;
#[cfg(feature = "files")]
mod reshape;
#[cfg(feature = "files")]
mod restore;
#[cfg(feature = "files")]
mod running;
#[cfg(feature = "files")]
mod tokenize;
#[cfg(feature = "files")]
mod types;
#[cfg(feature = "files")]
mod verification;
#[cfg(feature = "files")]
mod verify;
#[cfg(feature = "files")]
mod vet;

#[cfg(feature = "files")]
pub use calibrate::RoundedTensor;
#[cfg(feature = "files")]
pub use check::{Check, Checked, FileCheck, Proposal, check};
#[cfg(feature = "files")]
pub use convert::{Convert, ConvertPlan, ConvertSource, Converted, convert};
#[cfg(feature = "files")]
pub use diff::{ModelDiff, diff};
#[cfg(feature = "files")]
pub use edit::{EditSummary, FileEdit, PlannedEdit, edit, recover};
pub use estimate::{Estimate, Estimated, estimate};
#[cfg(feature = "files")]
pub use extract::{Extract, ExtractFormat, ExtractPlan, Extracted, extract};
#[cfg(feature = "files")]
pub use graft::{Graft, Renaming, graft};
#[cfg(feature = "files")]
pub use hash::{HashFile, HashList, HashModel, HashReport, hash, hash_file};
#[cfg(feature = "files")]
pub use imatrix::{MakeImatrix, MergeImatrices, WrittenImatrix, imatrix, merge_imatrices};
#[cfg(feature = "files")]
pub use index::{Index, index};
#[cfg(feature = "files")]
pub use list::{ListedModel, Listing};
#[cfg(feature = "files")]
pub use lora::{MergeLora, merge_lora};
#[cfg(feature = "files")]
pub use measure::{Measure, measure, merge_scores};
#[cfg(feature = "files")]
pub use quantize::{Calibration, Compared, Quantize, QuantizePlan, Quantized, quantize};
#[cfg(feature = "files")]
pub use rename::{Rename, rename, suggested_name};
pub use render::{Render, TemplateDifference, Templates, render};
#[cfg(feature = "files")]
pub use repository::{RepositoryTemplate, repository_templates};
#[cfg(feature = "files")]
pub use reshape::{Merge, MergePlan, Merged, Repack, Split, merge, repack, split};
#[cfg(feature = "files")]
pub use restore::{Restore, RestorePlan, Restored, restore};
#[cfg(feature = "files")]
pub use running::{RunText, find_program, no_graph, probe, read_recorded};
#[cfg(feature = "files")]
pub use tokenize::{TokenCount, count_tokens};
#[cfg(feature = "files")]
pub use verification::{Library, LibraryAnswer, LibraryRequest, Verification};
#[cfg(feature = "files")]
pub use verify::{Verdict, Verified, VerifiedTensor, Verify, verify};
#[cfg(feature = "files")]
pub use vet::vet;
