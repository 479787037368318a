# frozen_string_literal: true

require "parse/lock"

RSpec.describe Parse::Lock::Arguments do
  describe "the key" do
    [nil, "", :key, 7, %w[k]].each do |key|
      it "refuses #{key.inspect}" do
        expect { described_class.check(key, :warn, :auto) }.to raise_error(
          ArgumentError, "Parse::Lock.acquire: key must be a non-empty String (got #{key.class})"
        )
      end
    end

    it "refuses 1025 bytes" do
      expect { described_class.check("k" * 1025, :warn, :auto) }.to raise_error(
        ArgumentError, /\AParse::Lock\.acquire: key exceeds 1024 bytes \(got 1025\)\. /
      )
    end

    it "counts bytes" do
      expect { described_class.check("é" * 513, :warn, :auto) }.to raise_error(
        ArgumentError, /\AParse::Lock\.acquire: key exceeds 1024 bytes \(got 1026\)\. .*digest/
      )
    end

    ["k", "k" * 1024, "é" * 512, "\xFF\0".b, "a\0b", Class.new(String).new("k"), " "].each do |key|
      it "takes #{key[0, 5].inspect} of #{key.bytesize} bytes" do
        expect { described_class.check(key, :warn, :auto) }.not_to raise_error
      end
    end
  end

  describe "the mode" do
    %i[warn warn_throttled proceed raise].each do |mode|
      it "takes #{mode.inspect}" do
        expect { described_class.check("k", mode, :auto) }.not_to raise_error
      end
    end

    [:riase, "warn", nil, true].each do |mode|
      it "refuses #{mode.inspect}, and says why" do
        start = "Parse::Lock.acquire: on_degraded must be one of " \
                "[:warn, :warn_throttled, :proceed, :raise] (got #{mode.inspect})"
        expect { described_class.check("k", mode, :auto) }
          .to raise_error(ArgumentError, /\A#{Regexp.escape(start)}.*never treated as :warn/)
      end
    end
  end

  describe "the secret" do
    [:auto, nil, "x" * 16, "é" * 8].each do |secret|
      it "takes #{secret.inspect}" do
        expect { described_class.check("k", :warn, secret) }.not_to raise_error
      end
    end

    [:none, "", 7, false, ["a long enough secret"]].each do |secret|
      it "refuses #{secret.inspect}" do
        expect { described_class.check("k", :warn, secret) }.to raise_error(
          ArgumentError,
          /\AParse::Lock\.acquire: secret must be :auto .*nil .*or a non-empty String/
        )
      end
    end

    it "refuses one that is too short, without showing it" do
      refusal = /explicit `secret:` must be at least 16 bytes \(got 15\)(?!.*sesame)/
      expect { described_class.check("k", :warn, "sesame sesame!!") }.to raise_error(
        ArgumentError, /\AParse::Lock\.acquire: #{refusal}/
      )
    end

    it "shows nothing of a secret of the wrong kind" do
      expect { described_class.check("k", :warn, ["sesame"]) }.to raise_error(
        ArgumentError, /\A(?!.*sesame)/
      )
    end
  end

  describe ".ttl" do
    {
      1 => 1, 3 => 3, 30 => 30, "5" => 5, 2.9 => 2, -4 => 1, 0 => 1, 31 => 30, 10**30 => 30,
      0.5 => 1, 7r => 7
    }.each do |value, ttl|
      it "makes #{ttl} of #{value.inspect}" do
        expect(described_class.ttl(value)).to be(ttl)
      end
    end

    {
      nil => TypeError, Float::INFINITY => FloatDomainError, Float::NAN => FloatDomainError,
      "soon" => ArgumentError, "" => ArgumentError, [] => TypeError
    }.each do |value, error|
      it "raises #{error} for #{value.inspect}" do
        expect { described_class.ttl(value) }.to raise_error(error)
      end
    end
  end

  describe ".wait" do
    {
      2.0 => 2.0, 0 => 0.0, -1 => 0.0, -0.0 => 0.0, "0.5" => 0.5, 30 => 30.0, 30.1 => 30,
      1e300 => 30, 10**30 => 30, Float::INFINITY => 30, -Float::INFINITY => 0.0, 1r / 2 => 0.5
    }.each do |value, wait|
      it "makes #{wait.inspect} of #{value.inspect}" do
        expect(described_class.wait(value)).to eql(wait)
        expect(described_class.wait(value).to_s).to eq(wait.to_s)
      end
    end

    {
      nil => TypeError, Float::NAN => ArgumentError, "soon" => ArgumentError, [] => TypeError
    }.each do |value, error|
      it "raises #{error} for #{value.inspect}" do
        expect { described_class.wait(value) }.to raise_error(error)
      end
    end
  end
end
