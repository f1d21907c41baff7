//! The part of Python's pickle format that PyTorch uses to save named tensors; it runs no code.
//!
//! A pickle is a program for a machine with a stack and a memo. Only
//! operations that build plain values are carried out; a call is kept as what
//! it is, and means something only where the caller knows the function.
//!
//! # Source
//! CPython, Lib/pickletools.py (meaning of each operation).

use std::collections::HashMap;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    /// Tuples and lists.
    List(Vec<Value>),
    Dict(Vec<(Value, Value)>),
    /// `module.name`.
    Global(String),
    /// A function and its arguments.
    Call(String, Vec<Value>),
    /// What lies outside of the pickle, by its description.
    Persistent(Box<Value>),
    Mark,
}

impl Value {
    pub(super) fn int(&self) -> Option<i64> {
        if let Self::Int(value) = self { Some(*value) } else { None }
    }

    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(value) = self { Some(value) } else { None }
    }

    pub(super) fn list(&self) -> Option<&[Value]> {
        if let Self::List(values) = self { Some(values) } else { None }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let end = self.at.checked_add(count).filter(|&end| end <= self.bytes.len()).ok_or("ends early")?;
        let part = &self.bytes[self.at..end];
        self.at = end;
        Ok(part)
    }

    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?[0])
    }

    /// A number of up to 8 little-endian bytes.
    fn number(&mut self, bytes: usize) -> Result<usize, String> {
        Ok(self.take(bytes)?.iter().rev().fold(0, |value, &byte| value << 8 | usize::from(byte)))
    }

    fn text(&mut self, count: usize) -> Result<String, String> {
        String::from_utf8(self.take(count)?.to_vec()).map_err(|_| "holds text that is not UTF-8".into())
    }

    fn line(&mut self) -> Result<String, String> {
        let end = self.bytes[self.at..].iter().position(|&byte| byte == b'\n').ok_or("ends early")?;
        let line = self.text(end)?;
        self.at += 1;
        Ok(line)
    }
}

/// Appends pairs to the dictionary on top of the stack.
fn set_items(stack: &mut [Value], items: Vec<Value>) -> Result<(), String> {
    match stack.last_mut() {
        Some(Value::Dict(pairs)) => {
            let mut items = items.into_iter();
            while let (Some(key), Some(value)) = (items.next(), items.next()) {
                pairs.push((key, value));
            }
            Ok(())
        }
        _ => Err("sets items of what is no dictionary".into()),
    }
}

/// The value of a pickle.
pub(super) fn read(bytes: &[u8]) -> Result<Value, String> {
    let mut reader = Reader { bytes, at: 0 };
    let mut stack: Vec<Value> = Vec::new();
    let mut memo: HashMap<usize, Value> = HashMap::new();
    fn pop(stack: &mut Vec<Value>) -> Result<Value, String> {
        stack.pop().ok_or_else(|| "takes from an empty stack".into())
    }
    fn to_mark(stack: &mut Vec<Value>) -> Result<Vec<Value>, String> {
        let mark = stack.iter().rposition(|value| *value == Value::Mark).ok_or("has no mark")?;
        let items = stack.split_off(mark + 1);
        stack.pop();
        Ok(items)
    }
    loop {
        match reader.byte()? {
            0x80 => drop(reader.byte()?),
            0x95 => drop(reader.take(8)?),
            b'.' => return pop(&mut stack),
            b'(' => stack.push(Value::Mark),
            b'N' => stack.push(Value::None),
            0x88 => stack.push(Value::Bool(true)),
            0x89 => stack.push(Value::Bool(false)),
            b'K' => {
                let value = reader.number(1)?;
                stack.push(Value::Int(value as i64));
            }
            b'M' => {
                let value = reader.number(2)?;
                stack.push(Value::Int(value as i64));
            }
            b'J' => {
                let value = reader.number(4)? as u32;
                stack.push(Value::Int(i64::from(value.cast_signed())));
            }
            0x8a => {
                let count = reader.number(1)?;
                let bytes = reader.take(count)?;
                if count > 8 {
                    return Err("holds an integer of more than 64 bits".into());
                }
                let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
                let start = if negative { -1_i64 } else { 0 };
                stack.push(Value::Int(bytes.iter().rev().fold(start, |value, &byte| value << 8 | i64::from(byte))));
            }
            b'G' => {
                let bytes: [u8; 8] = reader.take(8)?.try_into().map_err(|_| "ends early")?;
                stack.push(Value::Float(f64::from_be_bytes(bytes)));
            }
            b'X' => {
                let count = reader.number(4)?;
                stack.push(Value::Text(reader.text(count)?));
            }
            0x8c => {
                let count = reader.number(1)?;
                stack.push(Value::Text(reader.text(count)?));
            }
            b'}' => stack.push(Value::Dict(Vec::new())),
            b']' | b')' => stack.push(Value::List(Vec::new())),
            b'l' | b't' => {
                let items = to_mark(&mut stack)?;
                stack.push(Value::List(items));
            }
            0x85..=0x87 => {
                let count = usize::from(bytes[reader.at - 1] - 0x84);
                let start = stack.len().checked_sub(count).ok_or("takes from an empty stack")?;
                let items = stack.split_off(start);
                stack.push(Value::List(items));
            }
            b'a' | b'e' => {
                let items = if bytes[reader.at - 1] == b'a' { vec![pop(&mut stack)?] } else { to_mark(&mut stack)? };
                match stack.last_mut() {
                    Some(Value::List(list)) => list.extend(items),
                    _ => return Err("appends to what is no list".into()),
                }
            }
            b's' => {
                let (value, key) = (pop(&mut stack)?, pop(&mut stack)?);
                set_items(&mut stack, vec![key, value])?;
            }
            b'u' => {
                let items = to_mark(&mut stack)?;
                set_items(&mut stack, items)?;
            }
            b'q' | b'r' | 0x94 => {
                let place = match bytes[reader.at - 1] {
                    b'q' => reader.number(1)?,
                    b'r' => reader.number(4)?,
                    _ => memo.len(),
                };
                memo.insert(place, stack.last().cloned().ok_or("remembers an empty stack")?);
            }
            b'h' | b'j' => {
                let width = if bytes[reader.at - 1] == b'h' { 1 } else { 4 };
                let place = reader.number(width)?;
                stack.push(memo.get(&place).cloned().ok_or("recalls what it never remembered")?);
            }
            b'c' => {
                let (module, name) = (reader.line()?, reader.line()?);
                stack.push(Value::Global(format!("{module}.{name}")));
            }
            0x93 => match (pop(&mut stack)?, pop(&mut stack)?) {
                (Value::Text(name), Value::Text(module)) => stack.push(Value::Global(format!("{module}.{name}"))),
                _ => return Err("names a function by what is no text".into()),
            },
            b'Q' => {
                let description = pop(&mut stack)?;
                stack.push(Value::Persistent(Box::new(description)));
            }
            b'R' => match (pop(&mut stack)?, pop(&mut stack)?) {
                // An ordered dictionary is filled afterwards.
                (Value::List(arguments), Value::Global(name)) if name == "collections.OrderedDict" && arguments.is_empty() => {
                    stack.push(Value::Dict(Vec::new()));
                }
                (Value::List(arguments), Value::Global(name)) => stack.push(Value::Call(name, arguments)),
                _ => return Err("calls what is no function".into()),
            },
            // The state of an object (metadata of a state dict), which changes nothing that is read here.
            b'b' => drop(pop(&mut stack)?),
            other => return Err(format!("uses the pickle operation {other:#04x}, which named tensors do not need")),
        }
    }
}
