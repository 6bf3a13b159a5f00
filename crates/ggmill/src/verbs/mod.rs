//! The verbs: functions that do one thing with models, each with its builder.
