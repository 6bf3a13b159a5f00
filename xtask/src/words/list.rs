//! Words to avoid, the replacement for each, and the reason.

/// Words to avoid.
pub(super) struct Avoided {
    /// In lower case, with single spaces.
    pub(super) words: &'static str,
    pub(super) instead: &'static str,
    pub(super) because: &'static str,
    /// Words before them with which they are plain English.
    pub(super) fine_after: &'static [&'static str],
    /// Words after them with which they are plain English.
    pub(super) fine_before: &'static [&'static str],
    /// Whether they are avoided only as the first words of a text.
    pub(super) is_opening: bool,
}

/// A file that may use some words, and why.
pub(super) struct Exception {
    pub(super) file: &'static str,
    pub(super) words: &'static str,
    #[expect(dead_code, reason = "for those who read the table")]
    pub(super) because: &'static str,
}

pub(super) const EXCEPTIONS: &[Exception] = &[
    Exception {
        file: "crates/ggmill-check/src/source.rs",
        words: "refuses",
        because: "a keyword of data/sources.txt",
    },
    Exception {
        file: "crates/ggmill-cli/src/args.rs",
        words: "the same",
        because: "the help of a command",
    },
    Exception {
        file: "crates/ggmill-cli/src/commands/estimate/mod.rs",
        words: "whether",
        because: "the help of an option",
    },
];

const fn avoid(words: &'static str, instead: &'static str, because: &'static str) -> Avoided {
    Avoided { words, instead, because, fine_after: &[], fine_before: &[], is_opening: false }
}

/// Words to avoid at the beginning of a doc comment.
const fn opening(words: &'static str, instead: &'static str) -> Avoided {
    let because = "a doc comment begins with a verb phrase";
    Avoided { words, instead, because, fine_after: &[], fine_before: &[], is_opening: true }
}

/// Words that all texts for users avoid: messages, help, documentation, doc comments.
pub(super) const WORDS: &[Avoided] = &[
    avoid("folder", "directory", "one term for one thing"),
    avoid("folders", "directories", "one term for one thing"),
    avoid("metadata pair", "metadata entry", "the specification's metadata has keys and values"),
    avoid("metadata pairs", "metadata entries", "the specification's metadata has keys and values"),
    avoid("stands twice", "occurs twice, or duplicate", "a metaphor"),
    avoid("stand twice", "occur twice, or duplicate", "a metaphor"),
    Avoided {
        words: "stands in",
        instead: "is in",
        because: "a metaphor",
        fine_after: &[],
        fine_before: &["for"],
        is_opening: false,
    },
    avoid("stands at", "is at", "a metaphor"),
    avoid("stands there", "is there", "a metaphor"),
    avoid("stands where", "is where", "a metaphor"),
    avoid("stands behind", "follows", "a metaphor"),
    avoid("stands beside", "is beside", "a metaphor"),
    avoid("stands before", "precedes", "a metaphor"),
    avoid("anew", "again, or rewrite", "archaic"),
    avoid("laid out anew", "rewritten", "archaic"),
    avoid("mend", "fix", "the command has --fix"),
    avoid("mends", "fixes", "the command has --fix"),
    avoid("mended", "fixed", "the command has --fix"),
    avoid("mending", "fixing", "the command has --fix"),
    avoid("whoever", "the caller, the program, the user", "say who it is"),
    avoid("nobody", "no program, no user", "say who it is"),
    avoid("anybody", "a program, a user", "say who it is"),
    avoid("somebody", "a program, a user", "say who it is"),
    Avoided {
        words: "is no",
        instead: "is not a",
        because: "a translated idiom",
        fine_after: &["there"],
        fine_before: &["longer", "more", "less", "better", "such", "other", "one"],
        is_opening: false,
    },
    Avoided {
        words: "are no",
        instead: "are not",
        because: "a translated idiom",
        fine_after: &["there"],
        fine_before: &["longer", "more", "less", "better", "such", "other"],
        is_opening: false,
    },
    avoid("what is no", "a value that is not", "a translated idiom"),
    avoid(
        "rows are not whole blocks",
        "row length is not a multiple of the block size",
        "the common term",
    ),
    avoid("are no whole blocks", "is not a multiple of the block size", "the common term"),
    avoid("cannot be turned", "cannot be byte-swapped", "the common term"),
    avoid("turned bytes", "byte-swapped", "the common term"),
    avoid("truth for each lane", "lane mask", "the common term"),
    avoid("root of the mean square", "RMSE", "the common term"),
    avoid("speaks of", "refers to", "a metaphor"),
    avoid("the first that speaks", "the first source wins", "a metaphor"),
    avoid("is heard", "is used", "a metaphor"),
    avoid("without a word", "silently", "a metaphor"),
    avoid("as ever", "as before", "archaic"),
    avoid("all the same", "anyway", "ambiguous"),
    avoid("is to be had", "is available", "a translated idiom"),
    avoid("beyond all reason", "implausible", "a metaphor"),
    avoid("put aside", "close idle files", "a private term"),
    avoid("the house", "the inspection pipeline", "a private term"),
    // Spelling.
    avoid("hyper-parameter", "hyperparameter", "the field's spelling"),
    avoid("hyper-parameters", "hyperparameters", "the field's spelling"),
    avoid("behaviour", "behavior", "American spelling, as in llama.cpp"),
    avoid("colour", "color", "American spelling, as in llama.cpp"),
    avoid("colours", "colors", "American spelling, as in llama.cpp"),
    avoid("coloured", "colored", "American spelling, as in llama.cpp"),
    avoid("licence", "license", "American spelling, as in llama.cpp"),
    avoid("licences", "licenses", "American spelling, as in llama.cpp"),
    avoid("recognise", "recognize", "American spelling, as in llama.cpp"),
    avoid("recognised", "recognized", "American spelling, as in llama.cpp"),
    avoid("recognises", "recognizes", "American spelling, as in llama.cpp"),
    avoid("metadata are", "metadata is", "singular, as in the specification"),
    avoid("tensor data are", "tensor data is", "singular, as in the specification"),
    // Constructions.
    avoid("taken for", "treated as, or mistaken for", "a translated idiom"),
    avoid("held to", "checked against", "a translated idiom"),
    avoid("held against", "checked against", "a translated idiom"),
    avoid("followed backwards", "reversed", "a metaphor"),
    avoid("of today", "current", "a translated idiom"),
    avoid("against intent", "detects tampering", "the common term"),
    avoid("element a line", "element per line", "a translated idiom"),
    avoid("token a line", "token per line", "a translated idiom"),
    avoid("a line each", "one per line", "a translated idiom"),
    avoid("come on top", "are not counted, or in addition", "a translated idiom"),
    avoid("comes on top", "is not counted, or in addition", "a translated idiom"),
    avoid("another type than", "a different type from", "a translated idiom"),
    avoid("another length than", "a different length from", "a translated idiom"),
    avoid("another name than", "a different name from", "a translated idiom"),
    avoid("another model than", "a different model from", "a translated idiom"),
    avoid("without a choice", "by default", "a translated idiom"),
    avoid("where it lies", "in place", "a translated idiom"),
    avoid("where they lie", "in place", "a translated idiom"),
    avoid("is told of", "receives, or reports", "a translated idiom"),
    avoid("kept whole", "kept completely", "a translated idiom"),
    avoid("nothing is found about", "is not checked", "a translated idiom"),
    avoid("so many bytes", "at most N bytes", "means a great many"),
    avoid("so many tensors", "at most N tensors", "means a great many"),
    avoid("act on the terminal", "control characters", "the common term"),
    avoid("in their order", "in order", "a translated idiom"),
    avoid("as it should be", "correct", "a translated idiom"),
    avoid("looked at", "examined, checked, or used", "vague"),
    avoid("are not there", "are missing", "a translated idiom"),
    avoid("is not there", "is missing, or does not exist", "a translated idiom"),
    avoid("that are there", "that exist", "a translated idiom"),
    avoid("that is there", "that exists", "a translated idiom"),
];

/// Words that messages and help avoid in addition: fragments and idioms that are clear in a doc
/// comment, which has a context.
pub(super) const MESSAGES: &[Avoided] = &[
    avoid("is there already", "already exists", "a translated idiom"),
    avoid("exists already", "already exists", "the usual order"),
    avoid("is not taken", "is not supported, or is not accepted", "a translated idiom"),
    avoid("are not taken", "are not supported, or are not accepted", "a translated idiom"),
    avoid("lies in", "is in, or is contained in", "a metaphor"),
    avoid("lie in", "are in, or are contained in", "a metaphor"),
    avoid("leave it out", "omit this option", "names no referent"),
    avoid("leaves it out", "omits it", "the common term"),
    avoid("left out", "omitted, or skipped", "the common term"),
    Avoided {
        words: "is none",
        instead: "is not one, or is missing",
        because: "names no referent",
        fine_after: &["there"],
        fine_before: &["of"],
        is_opening: false,
    },
    avoid("whole number", "integer", "the common term"),
    avoid("whole numbers", "integers", "the common term"),
    avoid("meanwhile", "since it was opened, or during the edit", "vague"),
    avoid("memory is short of", "not enough memory for", "a translated idiom"),
    avoid("told apart", "distinguished", "a translated idiom"),
    avoid("without effect", "has no effect", "a translated idiom"),
    avoid("has no place for", "cannot represent", "a metaphor"),
    avoid("another order", "a different order", "another is one more"),
    avoid("another shape", "a different shape", "another is one more"),
    avoid("another length", "a different length", "another is one more"),
    avoid("another place", "a different offset, or a different directory", "another is one more"),
    avoid("another way", "a different way", "another is one more"),
    avoid("asked for", "requested", "the common term"),
    avoid("breaks off", "is truncated, or is interrupted", "a metaphor"),
    avoid("broke off", "was interrupted", "a metaphor"),
    avoid("cut off", "truncated", "a metaphor"),
    avoid("goes on at", "continues at", "a translated idiom"),
    avoid("which is none", "which is not one", "names no referent"),
    avoid("which this architecture has not", "does not support", "archaic"),
    avoid("not one of safetensors", "not a valid safetensors header", "a translated idiom"),
    avoid("refuse", "reject", "one term for one thing"),
    avoid("refuses", "rejects", "one term for one thing"),
];

/// Words that comments in code avoid in addition, doc comments included.
pub(super) const COMMENTS: &[Avoided] = &[
    avoid("there is no third", "name the two", "a riddle"),
    avoid("as the case may be", "name the cases", "a riddle"),
    avoid("so many", "`count` of them, or the name of the number", "means a great many"),
    avoid("of its own", "own, separate, or leave it out", "a translated idiom"),
    avoid("of their own", "own, separate, or leave it out", "a translated idiom"),
    avoid("and yet", "but", "archaic"),
    avoid("what is left", "the rest, or the remaining items", "the noun is missing"),
    avoid("what it takes", "what it needs", "the noun is missing"),
    avoid("in its place", "instead", "ambiguous"),
    avoid("in their place", "instead", "ambiguous"),
    avoid("at hand", "available, or known", "a translated idiom"),
    opening("what", "a noun, or Returns"),
    opening("whose", "a noun"),
    opening("that of", "the noun"),
    opening("those of", "the noun"),
    opening("of", "a noun"),
    opening("in that of", "the noun"),
    opening("the same", "a sentence that stands alone"),
    opening("so many", "the name of the number"),
    opening("all that", "all, and the noun"),
    opening("whether", "Returns `true` if, or If true"),
    opening("how many", "the number of"),
];
