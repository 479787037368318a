# frozen_string_literal: true

require "spec_helper"
require "openssl"

RSpec.describe Plock do
  messages = ["", "k", "kéy", "\x00\xFF".b, "m" * 100_000]

  describe ".digest" do
    messages.each do |message|
      it "is SHA-256 of #{message.bytesize} bytes" do
        expect(described_class.digest(message)).to eq(OpenSSL::Digest.hexdigest("SHA256", message))
      end

      ["", "s", "s" * 64, "s" * 65, "\x00" * 200].each do |secret|
        it "is HMAC-SHA256 of #{message.bytesize} bytes with a secret of #{secret.bytesize}" do
          expect(described_class.digest(message, secret)).to eq(
            OpenSSL::HMAC.hexdigest("SHA256", secret, message)
          )
        end
      end
    end

    it "takes Strings only" do
      expect { described_class.digest(:symbol) }.to raise_error(TypeError)
      expect { described_class.digest("m", 5) }.to raise_error(TypeError)
      expect { described_class.digest }.to raise_error(ArgumentError)
    end
  end

  describe ".store_key" do
    it "is the prefix and the digest" do
      expect(described_class.store_key("p:", "k")).to eq("p:#{described_class.digest("k")}")
      expect(described_class.store_key("p:", "k", "s")).to eq(
        "p:#{described_class.digest("k", "s")}"
      )
    end
  end

  describe ".token" do
    it "is a version 4 UUID, another one each time" do
      tokens = Array.new(1_000) { described_class.token }
      expect(tokens).to all(match(/\A\h{8}-\h{4}-4\h{3}-[89ab]\h{3}-\h{12}\z/))
      expect(tokens.uniq.size).to be(1_000)
      expect(tokens.first.encoding).to be(Encoding::US_ASCII)
    end
  end
end
