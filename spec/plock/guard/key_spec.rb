# frozen_string_literal: true

require "spec_helper"
require "plock/jobs/guard"
require "plock/jobs/guard/work"

RSpec.describe Plock::Guard::Work, "#key" do
  job = Class.new(described_class) do
    attr_accessor :arguments
    alias_method :plain_arguments, :arguments
  end

  define_method(:key_of) do |arguments, job_class = "Import", **options|
    work = job.new(Plock::Guard::Options.new(**options), nil, job_class, "1", nil)
    work.arguments = arguments
    work.key
  end

  describe "by default" do
    it "is of the class and the arguments" do
      expect(key_of([1, "a"])).to eq(key_of([1, "a"])).and start_with("job:Import:")
      expect(
        [
          key_of([1, "a"]), key_of([1, "b"]), key_of(%w[1 a]), key_of([[1, "a"]]),
          key_of([1, "a"], "Export")
        ].uniq.size
      ).to eq(5)
    end

    it "does not depend on the order of a Hash, however deep" do
      expect(key_of([{ "a" => 1, "b" => [{ "c" => nil, "d" => 2.5 }] }])).to eq(
        key_of([{ "b" => [{ "d" => 2.5, "c" => nil }], "a" => 1 }])
      )
    end

    it "tells numbers apart as JSON does, and writes them itself" do
      expect(key_of([1, 1.0, 1e20, -0.5, true, nil, "é\n"])).to eq(
        "job:Import:#{Plock.digest("[1,1.0,1.0e+20,-0.5,true,null,\"é\\n\"]")}"
      )
    end
  end

  it "is what the callable answers, for the arguments of perform" do
    expect(key_of([7, "x"], key: ->(id, _other) { "import:#{id}" })).to eq("import:7")
    expect(key_of([], key: -> { :nightly })).to eq(:nightly)
  end

  it "is the String that was given" do
    expect(key_of([7], key: "nightly")).to eq("nightly")
  end

  it "names the class whose key raises, and keeps what was raised" do
    expect { key_of([1], key: ->(_id) { raise "no such account" }) }.to raise_error(
      Plock::Guard::InvalidKey, "the key: of Import raised RuntimeError: no such account"
    ) { |e|
      expect(e.cause).to be_a(RuntimeError)
      expect(e.code).to eq(:bad_key)
    }
    expect { key_of([1], key: ->(_id, _more) { "k" }) }.to raise_error(
      Plock::Guard::InvalidKey, /ArgumentError: wrong number/
    )
  end

  [nil, 7, "", "x" * 1025, ["a"]].each do |answer|
    it "is not #{answer.inspect[0, 20]}" do
      expect { key_of([1], key: ->(_id) { answer }) }.to raise_error(
        Plock::Guard::InvalidKey, /key: of Import answered .*import:42/
      )
    end
  end
end
