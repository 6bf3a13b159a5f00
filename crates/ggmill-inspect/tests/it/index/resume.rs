//! An index that is updated is the same as one that is rebuilt from scratch.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use bytes::Bytes;
use ggmill_core::{Builder, GgmlType, MetadataBuf, Model, Shape};
use ggmill_inspect::index::{Candidate, Error, IndexOptions, Tables, index};
use parquet::basic::{Compression, Encoding, PageType, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, ParquetMetaData, ParquetMetaDataReader,
    ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::file::reader::FileReader as _;
use parquet::file::serialized_reader::{ReadOptionsBuilder, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use crate::index::support::{File, file, ndjson, ndjson_rows, parquet, source};
use crate::index::tables::{all_files, generated};

/// The files of a first run, and those of a second: one is gone, one is new, one has another time
/// and other content, one another size.
fn before_and_after() -> (Vec<File>, Vec<File>) {
    let before = generated(60);
    let mut after = before.clone();
    after.remove(50);
    after[40] = file("00040.gguf", before[41].1.clone(), 1_700_000_000_000_001);
    after[30] = file("00030.gguf", before[31].1.clone(), 1_700_000_000_000_000);
    after.insert(20, file("00019x.gguf", before[5].1.clone(), 3));
    assert_ne!(before[30].1.len(), before[31].1.len(), "the size tells");
    (before, after)
}

#[test]
fn only_what_changed_is_opened_and_the_result_is_that_of_a_new_run() {
    let (before, after) = before_and_after();
    for threads in [1, 4] {
        let (text, ..) = ndjson(&before, None, threads).unwrap();
        let (updated, outcome, opened) = ndjson(&after, Some(&text), threads).unwrap();
        assert_eq!((opened, outcome.kept, outcome.files), (3, 57, 60));
        let (fresh, counts, _) = ndjson(&after, None, 1).unwrap();
        assert!(updated == fresh);
        assert_eq!((outcome.tensors, outcome.entries), (counts.tensors, counts.entries));
        let (tables, ..) = parquet(&before, None, threads).unwrap();
        let (updated, outcome, opened) = parquet(&after, Some(&tables), threads).unwrap();
        assert_eq!((opened, outcome.kept, outcome.files), (3, 57, 60));
        assert!(updated == parquet(&after, None, 1).unwrap().0);
    }
}

/// How many pages of indices and of values the columns of a row group have.
fn pages(group: &RowGroupMetaData) -> Vec<[i32; 2]> {
    let count = |column: &ColumnChunkMetaData, encoding| {
        let pages = column.page_encoding_stats().unwrap().iter();
        let pages = pages
            .filter(|pages| pages.page_type == PageType::DATA_PAGE && pages.encoding == encoding);
        pages.map(|pages| pages.count).sum()
    };
    let columns = group.columns().iter();
    columns
        .map(|column| [Encoding::RLE_DICTIONARY, Encoding::PLAIN].map(|kind| count(column, kind)))
        .collect()
}

/// Tables with several row groups, with columns of several pages, of which some have a dictionary
/// that became too large, and with nulls and lists of any length on the way.
#[test]
fn large_tables_are_the_same_after_an_update() {
    let model = |path: String, metadata: MetadataBuf, tensors: u64| {
        let builder = (0..tensors).fold(Builder::new().metadata(metadata), |builder, number| {
            let rank = usize::try_from(number % 5).unwrap();
            let shape = Shape::new(&[1, 2, number % 3 + 1, 1][..rank]).unwrap();
            let kind = if number % 3 > 0 { GgmlType::F32 } else { GgmlType::F16 };
            builder.tensor(format!("blk.{number}"), kind, shape)
        });
        let plan = builder.plan().unwrap();
        let mut bytes = plan.header().to_vec();
        bytes.resize(usize::try_from(plan.total_len()).unwrap(), 0);
        file(&path, bytes, 5)
    };
    let mut files = vec![model("a".to_owned(), MetadataBuf::new(), 45_000)];
    for number in 0..8 {
        let mut metadata = MetadataBuf::new();
        for entry in 0..1500_u64 {
            let key = format!("{entry:0200}.{number}");
            match entry % 5 {
                0 => metadata.set(key, entry),
                1 => metadata.set(key, 0.5),
                2 => metadata.set(key, "llama"),
                _ => metadata.set(key, &*format!("{entry:0300}.{number}")),
            }
        }
        files.push(model(format!("b{number}{}", "x".repeat(4000)), metadata, 1));
    }
    let (tables, ..) = parquet(&files, None, 1).unwrap();
    let [_, tensors, metadata] = tables.each_ref().map(|table| {
        let options = ReadOptionsBuilder::new().with_encoding_stats_as_mask(false).build();
        let table = bytes::Bytes::copy_from_slice(table);
        SerializedFileReader::new_with_options(table, options).unwrap().metadata().clone()
    });
    assert!(pages(tensors.row_group(0)).iter().all(|[indices, values]| indices + values > 1));
    assert!(metadata.num_row_groups() > 1);
    assert!(pages(metadata.row_group(0)).iter().any(|pages| pages.iter().all(|&count| count > 0)));
    let (updated, outcome, opened) = parquet(&files, Some(&tables), 1).unwrap();
    assert_eq!((opened, outcome.kept), (0, 9));
    assert!(updated == tables);
    // Rows that are skipped before those that are taken.
    for removed in [3, 0] {
        files.remove(removed);
        let (updated, _, opened) = parquet(&files, Some(&tables), 1).unwrap();
        assert_eq!(opened, 0);
        assert!(updated == parquet(&files, None, 1).unwrap().0);
    }
}

#[test]
fn what_had_an_error_is_read_again() {
    let files = all_files();
    let (text, first, _) = ndjson(&files, None, 2).unwrap();
    let (updated, outcome, opened) = ndjson(&files, Some(&text), 2).unwrap();
    assert_eq!((opened as u64, outcome.broken), (first.broken, first.broken));
    assert!(updated == text);
    let (tables, ..) = parquet(&files, None, 2).unwrap();
    let (updated, _, opened) = parquet(&files, Some(&tables), 2).unwrap();
    assert!(opened as u64 == first.broken && updated == tables);
}

#[test]
fn a_file_of_unknown_size_or_time_is_read_again() {
    let mut files = generated(5);
    let (text, ..) = ndjson(&files, None, 1).unwrap();
    files[1].0 = Candidate::new("00001.gguf");
    files[3].0.modified = None;
    assert_eq!(ndjson(&files, Some(&text), 1).unwrap().2, 2);
}

/// A run that was broken off in the middle of a line, at any place.
#[test]
fn ndjson_that_is_cut_can_be_continued() {
    let files = generated(12);
    let (text, ..) = ndjson(&files, None, 1).unwrap();
    for end in (0..text.len()).step_by(37) {
        let (updated, outcome, opened) = ndjson(&files, text.get(..end), 1).unwrap();
        assert!(updated == text);
        assert_eq!(outcome.kept + opened as u64, 12);
        // All lines of a file are there before those of the next begin.
        let whole = ndjson_rows(
            &text[..text[..end].iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1)],
        )[0]
        .len();
        assert!(outcome.kept + 1 >= whole as u64);
    }
}

#[test]
fn what_is_not_an_index_is_refused() {
    let refused = |text: &str| match ndjson(&[], Some(text.as_bytes()), 1) {
        Err(Error::Previous(why)) => why,
        other => panic!("{text}: {other:?}"),
    };
    for text in ["notes\n", "{}\n", "{\"record\":\"file\",\"path\":\"x\"}\n", "\n"] {
        assert!(refused(text).starts_with("line 1: "), "{text}");
    }
    assert_eq!(
        refused("{\"record\":\"tensor\",\"path\":\"x\"}\n"),
        "line 1: the line of the file that it belongs to is missing"
    );
    let long = format!("{}\n", " ".repeat(5 << 20));
    assert!(refused(&long).contains("longer than"));
}

#[test]
fn damaged_tables_are_refused() {
    let files = generated(20);
    let (tables, ..) = parquet(&files, None, 1).unwrap();
    let refused = |tables: &[Vec<u8>; 3]| match parquet(&files, Some(tables), 1) {
        Err(Error::Previous(why)) => why,
        other => panic!("{:?}", other.map(|made| made.1)),
    };
    let [files_table, tensors, metadata] = tables.clone();
    let swapped = [files_table.clone(), metadata.clone(), tensors.clone()];
    assert_eq!(refused(&swapped), "tensors: its columns are different");
    let other = parquet(&generated(19), None, 1).unwrap().0;
    let mixed = [files_table.clone(), other[1].clone(), metadata.clone()];
    assert!(refused(&mixed).starts_with("the tables are not of the same run: "));
    for (table, name) in ["files", "tensors", "metadata"].iter().enumerate() {
        let mut cut = tables.clone();
        for len in [0, 1, 11, cut[table].len() / 2, cut[table].len() - 1] {
            cut[table].truncate(len.min(cut[table].len()));
            assert!(refused(&cut).starts_with(name));
            cut[table].clone_from(&tables[table]);
        }
    }
}

/// Where the footer of a table begins.
fn footer(table: &[u8]) -> usize {
    let end = table.len() - 8;
    end - u32::from_le_bytes(*table[end..].first_chunk().unwrap()) as usize
}

/// Why tables are refused.
fn refused(tables: &[Vec<u8>; 3]) -> String {
    match parquet(&[], Some(tables), 1) {
        Err(Error::Previous(why)) => why,
        other => panic!("{:?}", other.map(|made| made.1)),
    }
}

/// The format's reader takes as much memory as a footer says that there are columns.
#[test]
fn a_footer_with_other_columns_is_refused() {
    let (tables, ..) = parquet(&generated(3), None, 1).unwrap();
    for (number, name) in ["files", "tensors", "metadata"].iter().enumerate() {
        let footer = footer(&tables[number]);
        // The version, and the list of columns with how many they are.
        assert_eq!(tables[number][footer..][..3], [0x15_u8, 0x02, 0x19]);
        for (place, flip) in [(3, 0x10), (4, 1), (4, 0x80), (9, 1)] {
            let mut changed = tables.clone();
            changed[number][footer + place] ^= flip;
            assert_eq!(refused(&changed), format!("{name}: its columns are different"));
        }
        let mut long = tables.clone();
        let end = long[number].len() - 8;
        long[number][end..end + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(refused(&long), format!("{name}: its footer is too long"));
    }
}

/// The format's reader stops the program over some pages that ggmill does not write, and takes any
/// amount of memory over others.
#[test]
fn pages_that_are_not_written_here_are_refused() {
    let plain = with_a_text(8, 1, 3, |properties| properties);
    parquet(&[], Some(&plain), 1).expect("what is not compressed is read");
    let version = WriterVersion::PARQUET_2_0;
    let mut second = with_a_text(8, 1, 3, |properties| properties.set_writer_version(version));
    assert_eq!(refused(&second), "files: its columns are different");
    let place = footer(&second[0]) + 1;
    assert_eq!(second[0][place], 0x04);
    second[0][place] = 0x02;
    assert_eq!(refused(&second), "files: a page is not one that ggmill writes");
    let delta = with_a_text(8, 1, 3, |properties| {
        let path = ColumnPath::from("path");
        properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BYTE_ARRAY)
    });
    assert_eq!(refused(&delta), "files: a page has an encoding that ggmill does not write");
}

/// The format's reader stops the program over a text of which fewer bytes are left than its length
/// has.
#[test]
fn texts_that_are_cut_off_are_refused() {
    for dictionary in [false, true] {
        let written =
            |properties: WriterPropertiesBuilder| properties.set_dictionary_enabled(dictionary);
        let tables = with_a_text(8, 1, 3, written);
        parquet(&[], Some(&tables), 1).expect("nothing is changed");
        let path = b"\x06\0\0\0a.gguf";
        let places = tables[0].windows(path.len()).enumerate().filter(|(_, bytes)| bytes == path);
        let places: Vec<usize> = places.map(|(place, _)| place).collect();
        assert_eq!(places.len(), if dictionary { 1 } else { 8 });
        for (place, len) in [(0, 7), (0, 0), (6, 14), (6, 13), (7, 7), (7, 5), (7, u8::MAX)] {
            let mut changed = tables.clone();
            let Some(place) = places.get(place) else { continue };
            changed[0][*place] = len;
            let why = refused(&changed);
            assert!(why.starts_with("files: a page has "), "{why}");
        }
    }
}

/// The format's reader stops the program over a column that begins before the file.
#[test]
fn a_column_before_the_file_is_refused() {
    let files = generated(3);
    let (mut tables, ..) = parquet(&files, None, 1).unwrap();
    // The place of the first dictionary, 4, as a field of the footer: made to be -4.
    let (table, footer) = (&tables[0], footer(&tables[0]));
    let place =
        table[footer..].windows(2).position(|field| field == [0x26, 0x08]).unwrap() + footer;
    tables[0][place + 1] = 0x07;
    match parquet(&files, Some(&tables), 1) {
        Err(Error::Previous(why)) => {
            assert_eq!(why, "files: a column begins or ends before the file");
        }
        other => panic!("{:?}", other.map(|made| made.1)),
    }
}

/// Tables get their names one after another. If that is interrupted, each is of one run or of
/// another.
#[test]
fn tables_of_different_runs_are_refused_whatever_differs() {
    let before = generated(6);
    let mut changes = vec![before[..5].to_vec(), before.clone(), before.clone()];
    // Another time of modification, and another value of the same length.
    changes[1][3].0.modified = Some(7);
    let bytes = &mut changes[2][2].1;
    let key = b"general.architecture";
    let place = bytes.windows(key.len()).position(|window| window == key).unwrap();
    bytes[place + key.len() + 12] ^= 1;
    let old = parquet(&before, None, 1).unwrap().0;
    for after in changes {
        let new = parquet(&after, None, 1).unwrap().0;
        for of_new in [[false, false, true], [false, true, true], [true, false, false]] {
            let tables = [0, 1, 2]
                .map(|table| if of_new[table] { new[table].clone() } else { old[table].clone() });
            let error = parquet(&after, Some(&tables), 1).unwrap_err();
            assert!(matches!(&error, Error::Previous(why) if why.contains("same run")), "{error}");
        }
    }
}

/// The earlier index of files without tensors and metadata, whose cells in the last columns of the
/// table of files are this text: it is in the file once for each column.
fn with_a_shared_text(rows: usize, columns: usize, text_len: usize) -> [Vec<u8>; 3] {
    let compressed =
        |properties: WriterPropertiesBuilder| properties.set_compression(Compression::SNAPPY);
    with_a_text(rows, columns, text_len, compressed)
}

/// The same, written in another way.
fn with_a_text(
    rows: usize,
    columns: usize,
    text_len: usize,
    written: impl FnOnce(WriterPropertiesBuilder) -> WriterPropertiesBuilder,
) -> [Vec<u8>; 3] {
    let [empty, tensors, metadata] = parquet(&[], None, 1).unwrap().0;
    let reader = SerializedFileReader::new(bytes::Bytes::from(empty)).unwrap();
    let empty = reader.metadata().file_metadata();
    let schema = empty.schema_descr();
    let texts = schema.columns().iter().enumerate().filter(|(_, column)| {
        column.physical_type() == Physical::BYTE_ARRAY && column.max_def_level() > 0
    });
    let texts: Vec<usize> = texts.map(|(number, _)| number).rev().take(columns).collect();
    assert_eq!(texts.len(), columns);
    let properties =
        WriterProperties::builder().set_key_value_metadata(empty.key_value_metadata().cloned());
    let properties = written(properties).build();
    let mut table = Vec::new();
    let mut writer =
        SerializedFileWriter::new(&mut table, schema.root_schema_ptr(), properties.into()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let text = ByteArray::from("x".repeat(text_len).into_bytes());
    let mut number = 0;
    while let Some(mut column) = group.next_column().unwrap() {
        let is_optional = schema.column(number).max_def_level() > 0;
        let level = vec![i16::from(texts.contains(&number)); rows];
        let levels = is_optional.then_some(&*level);
        let written = match schema.column(number).physical_type() {
            Physical::BYTE_ARRAY if texts.contains(&number) => {
                column.typed::<ByteArrayType>().write_batch(&vec![text.clone(); rows], levels, None)
            }
            Physical::BYTE_ARRAY if !is_optional => column.typed::<ByteArrayType>().write_batch(
                &vec![ByteArray::from("a.gguf"); rows],
                None,
                None,
            ),
            Physical::INT64 if !is_optional => {
                column.typed::<Int64Type>().write_batch(&vec![0; rows], None, None)
            }
            Physical::BYTE_ARRAY => column.typed::<ByteArrayType>().write_batch(&[], levels, None),
            Physical::INT64 => column.typed::<Int64Type>().write_batch(&[], levels, None),
            Physical::DOUBLE => column.typed::<DoubleType>().write_batch(&[], levels, None),
            other => panic!("{other}"),
        };
        written.unwrap();
        column.close().unwrap();
        number += 1;
    }
    group.close().unwrap();
    writer.close().unwrap();
    [table, tensors, metadata]
}

/// The memory of a row group is bounded over all of its columns, whatever they take in the file.
#[test]
fn tables_that_are_small_in_the_file_only_are_refused() {
    const MIB: usize = 1 << 20;
    let outcome = |rows: usize, columns: usize, text_len: usize| {
        let tables = with_a_shared_text(rows, columns, text_len);
        assert!(tables[0].len() < MIB, "{} bytes", tables[0].len());
        parquet(&[], Some(&tables), 1).map(|_| ())
    };
    outcome(1024, 1, 30 << 10).expect("30 MiB are as much as an index has in a row group");
    outcome(512, 3, 20 << 10).expect("as are three columns of 10 MiB");
    for (rows, columns, text_len) in [(1024, 1, 64 << 10), (1024, 3, 20 << 10), (100_000, 1, 512)] {
        match outcome(rows, columns, text_len) {
            Err(Error::Previous(why)) => {
                assert_eq!(why, "files: a row group takes too much memory");
            }
            other => panic!("{rows} rows, {columns} columns: {other:?}"),
        }
    }
}

#[test]
fn breaking_off_keeps_what_an_earlier_index_has() {
    let mut files = generated(100);
    let (text, ..) = ndjson(&files, None, 1).unwrap();
    // Every second file is new.
    for (candidate, _) in files.iter_mut().step_by(2) {
        candidate.modified = Some(5);
    }
    let candidates: Vec<_> = files.iter().map(|(candidate, _)| candidate.clone()).collect();
    let open = |number: usize| Model::salvage(files[number].1.clone()).map_err(|e| e.to_string());
    for threads in [1, 3] {
        let mut out = Vec::new();
        let tables = Tables::ndjson(&mut out, Some(source(&text))).unwrap();
        let options = IndexOptions::default().with_threads(NonZeroUsize::new(threads).unwrap());
        let mut calls = 0;
        let outcome = index(&candidates, &open, tables, &options, &mut |_, outcome| {
            calls += 1;
            assert_eq!(calls, outcome.files);
            if calls < 10 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
        .unwrap();
        assert_eq!((outcome.kept, outcome.files + outcome.skipped), (50, 100));
        // What is in flight when it is broken off may be finished, or be many small files.
        assert!(outcome.files >= 55);
        // The next run reads the rest.
        let (updated, after, _) = ndjson(&files, Some(&out), 1).unwrap();
        assert_eq!(after.kept, outcome.files);
        assert!(updated == ndjson(&files, None, 1).unwrap().0);
    }
}

/// Row groups that share pages would be decoded once for each.
#[test]
fn row_groups_that_share_pages_are_refused() {
    let (mut tables, ..) = parquet(&generated(3), None, 1).unwrap();
    for (number, name) in ["files", "tensors", "metadata"].iter().enumerate() {
        let table = &tables[number];
        let found = ParquetMetaDataReader::new().parse_and_finish(&Bytes::from(table.clone()));
        let found = found.unwrap();
        let groups = [found.row_groups(), found.row_groups()].concat();
        let of_file = found.file_metadata();
        let twice = FileMetaData::new(
            of_file.version(),
            2 * of_file.num_rows(),
            of_file.created_by().map(str::to_owned),
            of_file.key_value_metadata().cloned(),
            of_file.schema_descr_ptr(),
            of_file.column_orders().cloned(),
        );
        let mut changed = table[..footer(table)].to_vec();
        let twice = ParquetMetaData::new(twice, groups);
        ParquetMetaDataWriter::new(&mut changed, &twice).finish().unwrap();
        let before = std::mem::replace(&mut tables[number], changed);
        assert_eq!(refused(&tables), format!("{name}: its columns overlap"));
        tables[number] = before;
    }
}
