# frozen_string_literal: true

require "spec_helper"
require "stringio"
require "plock/cli/scribe"

RSpec.describe Plock::CLI::Scribe do
  def written
    before, $stderr = $stderr, StringIO.new
    described_class.during { yield }
    $stderr.string
  ensure
    $stderr = before
  end

  it "writes what the block says on the standard error stream, in its order" do
    expect(
      written do
        $stderr.puts("one", "two\n")
        warn "three"
        $stderr.write("four")
      end
    ).to eq "one\ntwo\nthree\nfour"
  end

  it "takes what other programs write to a stream, as it is at that moment" do
    expect(
      written do
        $stderr.puts(:a, [1, nil])
        $stderr.puts
        text = +"b"
        $stderr.write(text)
        text.clear
        ($stderr << "c").printf("%02d", 7)
        $stderr.print("d")
        $stderr.putc("ef")
        $stderr.sync = true unless $stderr.tty?
      end
    ).to eq "a\n1\n\n\nbc07de"
  end

  it "returns the block's value, and puts the stream back even if the block raises" do
    before = $stderr
    expect(described_class.during { 5 }).to be 5
    expect { described_class.during { raise "no" } }.to raise_error("no")
    expect($stderr).to be before
  end

  it "goes on after a text that could not be written" do
    reader, writer = IO.pipe
    reader.close
    scribe = described_class.new(writer)
    2.times { expect(scribe.write("text")).to be 4 }
    expect(scribe.finish).to be_truthy
    expect(scribe.write("late")).to be 0
    writer.close
  end

  it "drops what a reader that hangs leaves no room for" do
    hangs = Thread::Queue.new
    stream = Object.new
    stream.define_singleton_method(:write) { |text| hangs.pop && text.size }
    scribe = described_class.new(stream)
    expect(eventually { scribe.write("text").zero? }).to be true
    hangs.close
    expect(scribe.finish).to be_truthy
  end
end
