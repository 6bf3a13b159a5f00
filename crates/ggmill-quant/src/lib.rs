//! Block codecs of every GGML tensor type, bit for bit the reference's.
